/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/process.h"

#include "platform/atomics.h"

#include <sys/mman.h>
#include <unistd.h>

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

#define OWN_RANGES 32u            /* rings, thread records and the live table; later ones are not counted */
#define OWN_AT_ONCE ((size_t)512) /* pages */

static struct {
  struct {
    char *memory;
    size_t bytes;
  } ranges[OWN_RANGES];
  uint32_t count; /* published behind a range */
  int64_t whole;
} own_memory;

void onstack_own_memory_keeps(void *memory, size_t bytes) {
  const uint32_t at = own_memory.count;
  if (at == OWN_RANGES) return;
  own_memory.ranges[at].memory = memory;
  own_memory.ranges[at].bytes = bytes;
  onstack_publish(&own_memory.count, at + 1);
}

void onstack_own_memory_changes(int64_t bytes) { onstack_add_relaxed(&own_memory.whole, bytes); }

/* mincore(2): a byte for each page of the kernel's. */
static uint64_t own_range_resident(char *memory, size_t bytes) {
#ifdef __linux__
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), at_once = OWN_AT_ONCE * page;
  unsigned char there[OWN_AT_ONCE];
  uint64_t resident = 0;
  for (size_t at = 0; at < bytes; at += at_once) {
    const size_t part = bytes - at < at_once ? bytes - at : at_once;
    const size_t pages = (part + page - 1) / page;
    if (mincore(memory + at, part, there) != 0) return resident;
    for (size_t i = 0; i < pages; i++) resident += (there[i] & 1u) * page;
  }
  return resident;
#else
  (void)memory, (void)bytes;
  return 0;
#endif
}

uint64_t onstack_own_memory_resident(void) {
  const int64_t whole = onstack_load_relaxed(&own_memory.whole);
  uint64_t resident = whole > 0 ? (uint64_t)whole : 0;
  for (uint32_t i = 0, count = onstack_observe(&own_memory.count); i < count; i++)
    resident += own_range_resident(own_memory.ranges[i].memory, own_memory.ranges[i].bytes);
  return resident;
}

ONSTACK_INTERNAL_DEFINE __thread uint32_t onstack_ours ONSTACK_OURS_MODEL;

#define WIPED_PAGE ((size_t)4096)

uint32_t *onstack_wiped_word(void) {
  void *page = mmap(NULL, WIPED_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  if (madvise(page, WIPED_PAGE, ONSTACK_WIPE_ON_FORK) == 0) return page;
  munmap(page, WIPED_PAGE);
  return NULL;
}
