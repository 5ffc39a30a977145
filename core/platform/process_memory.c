/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/process_memory.h"

#ifdef __linux__
#include "platform/sys.h"

#include <errno.h>
#include <fcntl.h>

#define MEMORY_PIECE 4096u /* of one page: a write from two, of which one is not there, may write nothing */

/* Where process_vm_readv is refused (seccomp, emulators): write() reads for us, up to the first page that is not there. */
static size_t memory_copy_by_pipe(uint64_t address, uint64_t out, size_t size) {
  int ends[2] = {-1, -1};
  size_t copied = 0;
  if (onstack_sys_call2(SYS_pipe2, (long)(uintptr_t)ends, O_NONBLOCK | O_CLOEXEC) != 0) return 0;
  while (copied < size) {
    const size_t in_page = MEMORY_PIECE - (size_t)(address + copied) % MEMORY_PIECE;
    const size_t piece = size - copied < in_page ? size - copied : in_page;
    const long written = onstack_sys_call3(SYS_write, ends[1], (long)(address + copied), (long)piece);
    if (written <= 0 || onstack_sys_call3(SYS_read, ends[0], (long)(out + copied), written) != written) break;
    copied += (size_t)written;
  }
  onstack_sys_call1(SYS_close, ends[0]);
  onstack_sys_call1(SYS_close, ends[1]);
  return copied;
}

size_t onstack_process_memory_copy(uint64_t address, void *out, size_t size) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)out, size}, remote = {address, size};
  const long copied = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  if (copied >= 0) return (size_t)copied;
  return copied == -EFAULT ? 0 : memory_copy_by_pipe(address, local.base, size);
}
#else
size_t onstack_process_memory_copy(uint64_t address, void *out, size_t size) {
  (void)address, (void)out, (void)size;
  return 0;
}
#endif

bool onstack_process_memory_read(uint64_t address, void *out, size_t size) {
  return onstack_process_memory_copy(address, out, size) == size;
}
