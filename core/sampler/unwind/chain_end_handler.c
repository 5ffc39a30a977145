/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/chain_end.h"

#include "platform/atomics.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/rules.h"

#define CHAIN_ENTRY_BYTES 64u   /* of an entry, which is assembly */
#define CHAIN_THREAD_BYTES 512u /* before and behind: libc calls a thread's function in two places (thrd_create) */
#define CHAIN_MAIN_BYTES 256u   /* of the main thread's stack: musl's frames before main; glibc's are larger */

ONSTACK_INTERNAL_DEFINE onstack_chain_roots onstack_chain_roots_known;

void onstack_chain_note_thread(uint64_t return_address) {
  onstack_store_relaxed(&onstack_chain_roots_known.thread_begins, onstack_address_strip(return_address));
}

/* Only if libc is a library: code of the program at that place may be main, or a function that main has called. */
static ONSTACK_HANDLER bool chain_is_before_main(uint64_t address, uint64_t entry) {
  onstack_code_range range = {0, 0};
  return onstack_load_relaxed(&onstack_chain_roots_known.has_libc) && onstack_code_is_known(address, &range) &&
         entry - range.low >= range.high - range.low;
}

ONSTACK_HANDLER bool onstack_chain_begins(uint64_t address, uint64_t sp) {
  const onstack_chain_roots *roots = &onstack_chain_roots_known;
  const uint64_t entry = onstack_load_relaxed(&roots->entry), thread = onstack_load_relaxed(&roots->thread_begins);
  const uint64_t loader_entry = onstack_load_relaxed(&roots->loader_entry);
  if (address - entry < CHAIN_ENTRY_BYTES && entry != 0) return true;
  if (address - loader_entry < CHAIN_ENTRY_BYTES && loader_entry != 0) return true;
  if (address - (thread - CHAIN_THREAD_BYTES) < 2 * (uint64_t)CHAIN_THREAD_BYTES && thread != 0) return true;
  return onstack_load_relaxed(&roots->main_sp) - sp < CHAIN_MAIN_BYTES && chain_is_before_main(address, entry);
}

ONSTACK_HANDLER onstack_truncation onstack_chain_end(uint64_t address, uint64_t sp) {
  onstack_module module = {.low = 0};
  if (onstack_chain_begins(address, sp)) return ONSTACK_TRUNCATED_NOT;
  switch (onstack_modules_find(address, &module)) {
  case ONSTACK_MODULE_HERE:
    return ONSTACK_TRUNCATED_NOT_RISING;
  case ONSTACK_MODULES_CHANGING:
    return ONSTACK_TRUNCATED_PENDING;
  default: /* generated code, whose caller cleared the frame pointer on a stack of its own */
    return ONSTACK_TRUNCATED_STACK_SWITCH;
  }
}
