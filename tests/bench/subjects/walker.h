/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A bare unwinder in a handler of our own (walker.c), as people use it who write a profiler themselves. */
#ifndef ONSTACK_BENCH_WALKER_H
#define ONSTACK_BENCH_WALKER_H

#include <stddef.h>
#include <stdint.h>

typedef struct walker {
  const char *name;
  /* Outside the signal. NULL or why it cannot walk. */
  const char *(*prepare)(const char *variant);
  /* In the handler. Returns the frames written. */
  size_t (*walk)(void *ucontext, uint64_t *frames, size_t capacity);
} walker;

extern const walker walker_linked;

#endif
