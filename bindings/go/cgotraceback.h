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

/* ---- which pass of Go's printer asks (traceback.go, learnPrinter) ---- */

/* Words around the buffer of the printer's frame; its return address is one of them. */
#define ONSTACKGO_PRINTER_BELOW 64
#define ONSTACKGO_PRINTER_WORDS 128

/* Calls onstackgoPrint from C, and notes what lies around the buffer at the last question that Go asks meanwhile on this
   thread: the printer's, where no allocation is sampled after it. Returns how many there were. One at a time. */
uint32_t onstackgo_printer_watch(int depth, uintptr_t last[ONSTACKGO_PRINTER_WORDS]);

/* The word `index` of them is the return address `prints` where frames are printed, and another one between `low` and
   `high` where they are only counted or skipped. Called once. */
void onstackgo_printer_known(uint32_t index, uintptr_t prints, uintptr_t low, uintptr_t high);

#endif
