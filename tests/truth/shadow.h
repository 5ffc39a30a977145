/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The truth about a thread's stack: what its own call instructions pushed. An entry is pushed when a call executes or
 * the kernel builds a signal frame, and popped when the stack pointer has risen above it, whoever moved it: a return, a
 * longjmp, an exception.
 */
#ifndef ONSTACK_TRUTH_SHADOW_H
#define ONSTACK_TRUTH_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRUTH_DEPTH 4096u

typedef struct truth_entry {
  uint64_t slot;  /* where the return address is stored; for a signal frame the SP of the interrupted code */
  uint64_t value; /* the return address, or the interrupted PC */
  bool signal;
  uint64_t alternate_low; /* of a signal frame on an alternate stack; equal to high: it is on the thread's own */
  uint64_t alternate_high;
} truth_entry;

typedef struct truth_shadow {
  uint32_t count;
  uint32_t lost; /* entries that did not fit: the comparison then has no truth */
  truth_entry entries[TRUTH_DEPTH];
} truth_shadow;

void truth_shadow_push(truth_shadow *shadow, truth_entry entry);

/* What the stack pointer's new value leaves. */
void truth_shadow_unwind_to(truth_shadow *shadow, uint64_t sp);

/* rt_sigreturn: everything down to the newest signal frame is gone, whichever stack it was on. */
void truth_shadow_return_from_signal(truth_shadow *shadow);

/* What a perfect walk gives: the PC, then the callers, leaf first. Returns their number, at most `capacity`. */
size_t truth_shadow_list(const truth_shadow *shadow, uint64_t pc, uint64_t *out, size_t capacity);

#endif
