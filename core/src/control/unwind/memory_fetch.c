/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/unwind/memory_fetch.h"

#include "base/sys.h"

#include <string.h>

static long fetch_copy(uint64_t address, void *out, size_t size) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)out, size}, remote = {address, size};
  return onstack_sys_process_vm_readv(&local, 1, &remote, 1);
}

size_t onstack_memory_fetch(uint64_t address, void *out, size_t size) {
  uint8_t known = 0, copy;
  long got = fetch_copy(address, out, size);
  if (got >= 0) return (size_t)got;
  /* Nothing is readable there, or nothing can be read this way: what lies on our own stack tells the two apart. */
  if (fetch_copy((uint64_t)(uintptr_t)&known, &copy, 1) == 1) return 0;
  memcpy(out, (const void *)(uintptr_t)address, size);
  return size;
}
