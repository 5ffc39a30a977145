/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reader `copy`: process_vm_readv(2) on our own process. The kernel copies under its own fault handling, so the memory
 * may vanish at any instant. It needs no privilege for oneself; ENOSYS under qemu-user and EPERM under some seccomp
 * filters are found by the self-test.
 */
#include "base/sys.h"
#include "handler/memory.h"

struct memory_copy_vector {
  uint64_t base;
  uint64_t length;
};

ONSTACK_HANDLER bool onstack_memory_copy_pair(uint64_t address, uint64_t words[2]) {
  struct memory_copy_vector local = {(uint64_t)(uintptr_t)words, 16};
  struct memory_copy_vector remote = {address, 16};
  /* getpid by system call: the child of a raw clone must not read its parent. */
  return onstack_sys_call6(SYS_process_vm_readv, onstack_sys_getpid(), (long)&local, 1, (long)&remote, 1, 0) == 16;
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
