/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reader `copy`: process_vm_readv(2) on our own process. The kernel copies under its own fault handling, so the memory
 * may vanish at any instant. It needs no privilege for oneself; ENOSYS under qemu-user and EPERM under some seccomp
 * filters are found by the self-test.
 */
#include "platform/sys.h"
#include "sampler/unwind/memory.h"

ONSTACK_HANDLER bool onstack_memory_copy_pair(uint64_t address, uint64_t words[2]) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)words, 16}, remote = {address, 16};
  return onstack_sys_process_vm_readv(&local, 1, &remote, 1) == 16;
}

ONSTACK_HANDLER uint32_t onstack_memory_copy_many(const uint64_t *addresses, uint32_t count, uint64_t *words) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)words, (uint64_t)count * 8};
  struct onstack_vector remote[ONSTACK_COPY_MANY];
  for (uint32_t i = 0; i < count; i++) remote[i] = (struct onstack_vector){addresses[i], 8};
  long got = onstack_sys_process_vm_readv(&local, 1, remote, count);
  /* A word that is readable in part counts as not readable (man process_vm_readv: partial transfers end at whole
     elements, and an element is not split here by a page that is missing behind it, but rounding down costs nothing). */
  return got > 0 ? (uint32_t)got / 8 : 0;
}

static bool copy_self_test(const void *good, const void *bad) {
  uint64_t words[2];
  return onstack_memory_copy_pair((uint64_t)(uintptr_t)good, words) &&
         !onstack_memory_copy_pair((uint64_t)(uintptr_t)bad, words);
}

static ONSTACK_HANDLER bool copy_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  return onstack_memory_copy_pair(address, words);
}

ONSTACK_INTERNAL_DEFINE const onstack_reader onstack_reader_copy = {"copy", copy_self_test, copy_read_pair};
