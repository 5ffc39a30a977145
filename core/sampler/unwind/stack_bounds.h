/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the stacks of a thread lie, as the kernel reported it, and the questions that a walk leaves for housekeeping. */
#ifndef ONSTACK_SAMPLER_UNWIND_STACK_BOUNDS_H
#define ONSTACK_SAMPLER_UNWIND_STACK_BOUNDS_H

#include "platform/defs.h"

#define ONSTACK_STACK_RANGES 3u

/* A readable mapping that stacks of the thread lie in. */
typedef struct onstack_stack_range {
  uint64_t low;
  uint64_t high;
} onstack_stack_range;

typedef struct onstack_stack_bounds {
  uint64_t requests[2]; /* stack addresses whose bounds no range has: housekeeping looks them up. 0: none */
  onstack_stack_range ranges[ONSTACK_STACK_RANGES];
  uint64_t thread_pointer;     /* noted with a request: libc puts it at the top of a thread's stack */
  onstack_stack_range unknown; /* no mapping was found for a request here: none is made again until housekeeping clears it */
} onstack_stack_bounds;

/* True if the last request near `address` found no mapping. Signal-safe. */
ONSTACK_INTERNAL bool onstack_stack_bounds_are_unknown(const onstack_stack_bounds *bounds, uint64_t address);

/* Asks housekeeping for the bounds of the mapping that holds `address`; true if this is a new request. Signal-safe. */
ONSTACK_INTERNAL bool onstack_stack_bounds_request(onstack_stack_bounds *bounds, uint64_t address);

/* Nothing is known and nothing is asked. Under the lock of the record that holds them. */
ONSTACK_INTERNAL void onstack_stack_bounds_clear(onstack_stack_bounds *bounds);

/* The calling thread's thread pointer (FS base, TPIDR_EL0); 0: not to be had. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_thread_pointer(void);

#endif
