/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/interpreter/interpreter.h"

#include "base/address.h"
#include "base/atomics.h"
#include "base/sys.h"

#include <errno.h>

/* The kernel copies: memory of an interpreter may be given back by another thread at any instant. */
static ONSTACK_HANDLER uint32_t interpreter_read(uint64_t address, void *to, uint32_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)to, bytes}, remote = {address, bytes};
  return onstack_sys_process_vm_readv(&local, 1, &remote, 1) == (long)bytes;
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

ONSTACK_HANDLER_APART void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count, int32_t tid,
                                                    uint32_t capacity, onstack_interpreted *out) {
  const onstack_frame_memory memory = {.read = interpreter_read,
                                       .read_own = interpreter_read_own,
                                       .scratch = out->frames + capacity,
                                       .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                       .tid = tid};
  out->count = 0;
  out->named = 0;
  for (uint32_t i = 0; i < count && out->count == 0; i++) {
    if (!onstack_observe(&interpreters[i].ready)) continue; /* pairs with the publish in session/interpreters.c */
    const onstack_frame_provider *provider = interpreters[i].provider;
    const uint32_t result = provider->copy(provider->data, &memory, out->frames, capacity);
    const uint32_t frames = result & ~ONSTACK_INTERPRETED_CUT;
    out->count = (uint16_t)(frames < capacity ? frames : capacity);
    out->cut = (result & ONSTACK_INTERPRETED_CUT) != 0;
    out->interpreter = (uint8_t)i;
  }
}
