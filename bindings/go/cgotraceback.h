/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The three functions of runtime.SetCgoTraceback, version 0, and what they are called with (runtime/traceback.go).
 * Package cgotraceback registers them; they stand here since the core is here.
 */
#ifndef ONSTACKGO_CGOTRACEBACK_H
#define ONSTACKGO_CGOTRACEBACK_H

#include <stdint.h>

struct onstackgo_traceback_argument {
  uintptr_t context;     /* 0: from the current point of execution; else what the context function gave */
  uintptr_t sig_context; /* ucontext_t *, in a signal handler; else 0 */
  uintptr_t *buffer;     /* of `max` words; a 0 ends the frames where there are fewer */
  uintptr_t max;
};

struct onstackgo_context_argument {
  uintptr_t context; /* in: 0: make one; else: give it back */
};

struct onstackgo_symbolizer_argument {
  uintptr_t pc;
  const char *file;
  uintptr_t line;
  const char *function;
  uintptr_t entry;
  uintptr_t more;
  uintptr_t data;
};

/* All three: signal-safe, on any thread and any stack. */
void onstackgo_traceback(struct onstackgo_traceback_argument *argument);
void onstackgo_context(struct onstackgo_context_argument *argument);
void onstackgo_symbolizer(struct onstackgo_symbolizer_argument *argument);

#endif
