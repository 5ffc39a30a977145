/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/process_memory.h"

#ifdef __linux__
#include <sys/uio.h>
#include <unistd.h>
#endif

bool onstack_process_memory_read(uint64_t address, void *bytes, size_t length) {
#ifdef __linux__
  struct iovec to = {.iov_base = bytes, .iov_len = length};
  struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)length;
#else
  (void)address, (void)bytes, (void)length;
  return false;
#endif
}
