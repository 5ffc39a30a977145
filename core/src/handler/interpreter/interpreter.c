/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/interpreter/interpreter.h"

#include "base/address.h"
#include "base/atomics.h"
#include "base/sys.h"
#include "handler/unwind/rules/rules.h"

#include <errno.h>

static uint32_t interpreter_refusals; /* process_vm_readv has failed for another reason than the address; relaxed */

/* The kernel copies: memory of an interpreter may be given back by another thread at any instant. */
static ONSTACK_HANDLER uint32_t interpreter_read(uint64_t address, void *to, uint32_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)to, bytes}, remote = {address, bytes};
  const long result = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  if (result < 0 && result != -EFAULT) onstack_store_relaxed(&interpreter_refusals, 1u);
  return result == (long)bytes;
}

/* A filter refuses (seccomp, which a thread can have alone). */
static ONSTACK_HANDLER bool interpreter_is_refused(void) {
  uint64_t word = 0, copy;
  return onstack_load_relaxed(&interpreter_refusals) != 0 &&
         !interpreter_read((uint64_t)(uintptr_t)&word, &copy, sizeof(copy));
}

/* As the reader `probe` (handler/unwind/memory_probe.c): the kernel says whether the page is there, and nobody takes it away
   from a thread that stands still in our handler. Where a filter answers instead it is copied. */
static ONSTACK_HANDLER uint32_t interpreter_read_own(uint64_t address, uint64_t *word) {
  if (address & 7 || !onstack_address_plausible(address)) return false;
  const long result = onstack_sys_sigprocmask(~0, (const onstack_kernel_sigset *)(uintptr_t)address, NULL);
  if (result == -EFAULT) return false;
  if (result != -EINVAL) return interpreter_read(address, word, sizeof(*word));
  *word = *(const volatile uint64_t *)(uintptr_t)address;
  return true;
}

/* Whether an address is in the native frame of the leaf, whose end its module's unwind rules tell. */
static ONSTACK_HANDLER uint8_t interpreter_leaf(const onstack_registers *registers, uint64_t place) {
  onstack_module module = {.low = 0};
  const onstack_rule *rule = onstack_rules_find(registers->pc, &module);
  if (!rule || (rule->cfa != ONSTACK_CFA_SP && rule->cfa != ONSTACK_CFA_FP)) return ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  const uint64_t base = rule->cfa == ONSTACK_CFA_SP ? registers->sp : registers->fp;
  const bool is = place >= registers->sp && place < base + (uint64_t)(int64_t)rule->cfa_offset;
  return is ? ONSTACK_INTERPRETED_LEAF_IS : ONSTACK_INTERPRETED_LEAF_IS_NOT;
}

ONSTACK_HANDLER_APART void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count, int32_t tid,
                                                    const onstack_registers *registers, uint32_t capacity,
                                                    onstack_interpreted *out) {
  onstack_frame_place place = {{.read = interpreter_read,
                                .read_own = interpreter_read_own,
                                .scratch = out->frames + capacity,
                                .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                .tid = tid},
                               0};
  out->count = 0;
  out->named = 0;
  out->cut = 0;
  out->leaf = ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  for (uint32_t i = 0; i < count && out->count == 0; i++) {
    if (!onstack_observe(&interpreters[i].ready)) continue; /* pairs with the publish in session/interpreters.c */
    const onstack_frame_provider *provider = interpreters[i].provider;
    const uint32_t result = provider->copy(provider->data, &place.memory, out->frames, capacity);
    const uint32_t frames = result & ~ONSTACK_INTERPRETED_CUT;
    out->count = (uint16_t)(frames < capacity ? frames : capacity);
    out->cut = (result & ONSTACK_INTERPRETED_CUT) != 0;
    out->interpreter = (uint8_t)i;
    if (place.place != 0) out->leaf = interpreter_leaf(registers, place.place);
  }
  out->refused = out->count == 0 && interpreter_is_refused();
}
