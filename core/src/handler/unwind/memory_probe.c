/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reader `probe`. rt_sigprocmask with an invalid `how` copies the set from user memory first and then returns EINVAL:
 * EFAULT tells an unreadable page, at about 100 ns, and the mask is not touched (kernel/signal.c). Any other result
 * (a seccomp filter's EPERM) proves nothing.
 */
#include "base/address.h"
#include "base/sys.h"
#include "handler/unwind/memory.h"
#include "handler/unwind/memory_pipe.h"

#include <errno.h>

#define MEMORY_PROBE_HOW (~0)

static ONSTACK_HANDLER bool probe_is_readable(uint64_t address) {
  const onstack_kernel_sigset *set = (const onstack_kernel_sigset *)(uintptr_t)address;
  return onstack_sys_sigprocmask(MEMORY_PROBE_HOW, set, NULL) == -EINVAL;
}

static bool probe_self_test(const void *good, const void *bad) {
  return probe_is_readable((uint64_t)(uintptr_t)good) && !probe_is_readable((uint64_t)(uintptr_t)bad);
}

static ONSTACK_HANDLER bool probe_pages(const onstack_memory *memory, uint64_t low, uint64_t high) {
  for (uint64_t page = low; page < high; page += ONSTACK_PAGE) {
    if (page >= memory->page_low && page < memory->page_high) continue;
    if (!probe_is_readable(page)) return false;
  }
  return true;
}

/* Neither in the proven part nor right above it. */
static ONSTACK_HANDLER bool probe_is_elsewhere(const onstack_memory *memory, uint64_t page) {
  return page > memory->page_high || page < memory->page_low;
}

static ONSTACK_HANDLER void probe_turn(onstack_memory *memory) {
  uint64_t low = memory->page_low, high = memory->page_high;
  memory->page_low = memory->other_low;
  memory->page_high = memory->other_high;
  memory->other_low = low;
  memory->other_high = high;
}

static ONSTACK_HANDLER bool probe_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  /* Another stack that this thread ran on is another's to unmap once the thread has left it: a fiber that has ended. */
  if (address < memory->low || address + 16 > memory->high)
    return memory->copy_works ? onstack_memory_copy_pair(address, words) : onstack_memory_pipe_pair(address, words);
  uint64_t low = address & ~(ONSTACK_PAGE - 1);
  uint64_t high = ((address + 15) & ~(ONSTACK_PAGE - 1)) + ONSTACK_PAGE;
  if (probe_is_elsewhere(memory, low)) probe_turn(memory);
  if (!probe_pages(memory, low, high)) return false;
  /* Frames go up the stack: let the proven part grow when the new page touches it. */
  if (probe_is_elsewhere(memory, low)) {
    memory->page_low = low;
    memory->page_high = high;
  } else if (high > memory->page_high) {
    memory->page_high = high;
  }
  words[0] = *(const volatile uint64_t *)(uintptr_t)address;
  words[1] = *(const volatile uint64_t *)(uintptr_t)(address + 8);
  return true;
}

ONSTACK_INTERNAL_DEFINE const onstack_reader onstack_reader_probe = {"probe", probe_self_test, probe_read_pair};
