/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/memory.h"

#include "platform/atomics.h"
#include "platform/context.h"

ONSTACK_HANDLER uint64_t onstack_thread_pointer(void) { return onstack_arch_thread_pointer(); }

ONSTACK_HANDLER bool onstack_stack_bounds_are_unknown(const onstack_stack_bounds *bounds, uint64_t address) {
  uint64_t low = onstack_load_relaxed(&bounds->unknown.low);
  return address - low < onstack_load_relaxed(&bounds->unknown.high) - low;
}

ONSTACK_HANDLER bool onstack_stack_bounds_request(onstack_stack_bounds *bounds, uint64_t address) {
  if (onstack_stack_bounds_are_unknown(bounds, address)) return false;
  onstack_store_relaxed(&bounds->thread_pointer, onstack_thread_pointer());
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(bounds->requests); i++) {
    uint64_t request = onstack_load_relaxed(&bounds->requests[i]);
    if (request == address) return false;
    if (request == 0) {
      onstack_store_relaxed(&bounds->requests[i], address);
      return true;
    }
  }
  return false;
}

void onstack_stack_bounds_clear(onstack_stack_bounds *bounds) {
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(bounds->requests); i++) onstack_store_relaxed(&bounds->requests[i], (uint64_t)0);
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) {
    onstack_store_relaxed(&bounds->ranges[i].low, (uint64_t)0);
    onstack_store_relaxed(&bounds->ranges[i].high, (uint64_t)0);
  }
  onstack_store_relaxed(&bounds->unknown.low, (uint64_t)0);
  onstack_store_relaxed(&bounds->unknown.high, (uint64_t)0);
}
