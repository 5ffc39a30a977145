/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/memory.h"

#include "platform/defs.h"
#include "platform/atomics.h"
#include "platform/sys.h"

#include <errno.h>

ONSTACK_HANDLER bool onstack_memory_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  if (address & 7 || !onstack_address_plausible(address)) return false;
  /* The common case: the same page as the frame before. */
  if (address >= memory->page_low && address + 16 <= memory->page_high) {
    words[0] = *(const volatile uint64_t *)(uintptr_t)address;
    words[1] = *(const volatile uint64_t *)(uintptr_t)(address + 8);
    return true;
  }
  return memory->reader->read_pair(memory, address, words);
}

ONSTACK_HANDLER const onstack_stack_range *onstack_memory_find_range(const onstack_memory *memory, uint64_t address) {
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++)
    if (address >= memory->ranges[i].low && address < memory->ranges[i].high) return &memory->ranges[i];
  return NULL;
}

/* A thread pointer further up than this is not taken for the top of this stack. */
#define MEMORY_STACK_BYTES ((uint64_t)256 << 20)

ONSTACK_INTERNAL_DEFINE uint64_t onstack_memory_main_end;

/* libc places the thread pointer at the top of the stacks that it makes. */
ONSTACK_HANDLER uint64_t onstack_memory_stack_end(uint64_t sp) {
  const uint64_t last = onstack_load_relaxed(&onstack_memory_main_end);
  uint64_t top = onstack_thread_pointer();
  if (last > sp && last - sp < MEMORY_STACK_BYTES && (top <= sp || last < top)) top = last;
  return top > sp && top - sp < MEMORY_STACK_BYTES ? top : 0;
}

ONSTACK_HANDLER void onstack_memory_enter_stack(onstack_memory *memory, uint64_t sp) {
  memory->low = memory->high = 0;
  if (!onstack_address_plausible(sp)) return;
  const onstack_stack_range *range = onstack_memory_find_range(memory, sp);
  if (range) {
    memory->low = range->low;
    memory->high = range->high;
    return;
  }
  if (memory->bounds && onstack_stack_bounds_request(memory->bounds, sp)) memory->asked = true;
}

/* ---- copy ---------------------------------------------------------------------------------------------------------------- */

/*
 * Reader `copy`: process_vm_readv(2) on our own process. The kernel copies under its own fault handling, so the memory
 * may vanish at any instant. It needs no privilege for oneself; ENOSYS under qemu-user and EPERM under some seccomp
 * filters are found by the self-test.
 */

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

/* ---- probe --------------------------------------------------------------------------------------------------------------- */

/*
 * Reader `probe`. rt_sigprocmask with an invalid `how` copies the set from user memory first and then returns EINVAL:
 * EFAULT tells an unreadable page, at about 100 ns, and the mask is not touched (kernel/signal.c). Any other result
 * (a seccomp filter's EPERM) proves nothing.
 *
 * A set of 8 bytes that lies across the end of a page asks for two pages at the price of one: the walk goes up the stack,
 * so the page above is asked for at once where it belongs to the stack. One process_vm_readv for many pages costs more than
 * the questions that it saves (about 300 ns a page, and ten times a question before the first), and so does
 * madvise(MADV_POPULATE_READ) (100 ns a page and 300 before the first); both take the lock of the process's mappings.
 */

#define MEMORY_PROBE_HOW (~0)

/* All of the 8 bytes. */
static ONSTACK_HANDLER bool probe_is_readable(uint64_t address) {
  const onstack_kernel_sigset *set = (const onstack_kernel_sigset *)(uintptr_t)address;
  return onstack_sys_sigprocmask(MEMORY_PROBE_HOW, set, NULL) == -EINVAL;
}

/* A page and the one above it. */
static ONSTACK_HANDLER bool probe_both(uint64_t page) {
  return probe_is_readable(page + ONSTACK_PAGE - sizeof(onstack_kernel_sigset) / 2);
}

static bool probe_self_test(const void *good, const void *bad) {
  const uint64_t page = (uint64_t)(uintptr_t)good;
  return probe_is_readable(page) && !probe_is_readable((uint64_t)(uintptr_t)bad) && probe_both(page - ONSTACK_PAGE) &&
         !probe_both(page);
}

/* Proves [low, high), one page or two, which lies in the proven part or beside it: that grows. */
static ONSTACK_HANDLER bool probe_pages(onstack_memory *memory, uint64_t low, uint64_t high) {
  const uint64_t page = low >= memory->page_low && low < memory->page_high ? low + ONSTACK_PAGE : low;
  uint64_t end = page + ONSTACK_PAGE;
  if (page >= high || (high <= memory->page_high && low >= memory->page_low)) return true;
  if (end < memory->high && probe_both(page))
    end += ONSTACK_PAGE;
  else if (end < high || !probe_is_readable(page))
    return false;
  if (memory->page_low == memory->page_high) memory->page_low = memory->page_high = page;
  if (page < memory->page_low) memory->page_low = page;
  if (end > memory->page_high) memory->page_high = end;
  return true;
}

static ONSTACK_HANDLER bool probe_is_beside(uint64_t part_low, uint64_t part_high, uint64_t low, uint64_t high) {
  return low <= part_high && high >= part_low;
}

/* A part as one word: the address of its first page, and the number of pages. Of a larger one the upper end is kept. */
static ONSTACK_HANDLER uint64_t probe_pack(uint64_t low, uint64_t high) {
  uint64_t pages = (high - low) / ONSTACK_PAGE;
  if (pages >= ONSTACK_PAGE) pages = ONSTACK_PAGE - 1;
  return (high - pages * ONSTACK_PAGE) | pages;
}

/* Puts the proven part by, and takes up the one that [low, high) lies in or beside, or begins one. */
static ONSTACK_HANDLER void probe_turn(onstack_memory *memory, uint64_t low, uint64_t high) {
  uint64_t put = probe_pack(memory->page_low, memory->page_high);
  memory->page_low = memory->page_high = 0;
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(memory->before); i++) {
    const uint64_t part = memory->before[i];
    const uint64_t part_low = part & ~(ONSTACK_PAGE - 1), part_high = part_low + part % ONSTACK_PAGE * ONSTACK_PAGE;
    memory->before[i] = put;
    put = part;
    if (!probe_is_beside(part_low, part_high, low, high)) continue;
    memory->page_low = part_low;
    memory->page_high = part_high;
    return;
  }
}

static ONSTACK_HANDLER bool probe_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  /* Another stack that this thread ran on is another's to unmap once the thread has left it: a fiber that has ended. */
  if (address < memory->low || address + 16 > memory->high)
    return memory->copy_works && onstack_memory_copy_pair(address, words);
  const uint64_t low = address & ~(ONSTACK_PAGE - 1);
  const uint64_t high = ((address + 15) & ~(ONSTACK_PAGE - 1)) + ONSTACK_PAGE;
  if (!probe_is_beside(memory->page_low, memory->page_high, low, high)) probe_turn(memory, low, high);
  if (!probe_pages(memory, low, high)) return false;
  words[0] = *(const volatile uint64_t *)(uintptr_t)address;
  words[1] = *(const volatile uint64_t *)(uintptr_t)(address + 8);
  return true;
}

ONSTACK_INTERNAL_DEFINE const onstack_reader onstack_reader_probe = {"probe", probe_self_test, probe_read_pair};

/* ---- none ---------------------------------------------------------------------------------------------------------------- */

static bool reader_none_test(const void *good, const void *bad) {
  (void)good;
  (void)bad;
  return true;
}

static ONSTACK_HANDLER bool reader_none_read(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  (void)address;
  (void)words;
  return false;
}

ONSTACK_INTERNAL_DEFINE const onstack_reader onstack_reader_none = {"none", reader_none_test, reader_none_read};
