/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/memory.h"

#include "platform/address.h"
#include "platform/atomics.h"

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
