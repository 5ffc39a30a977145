/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The subject's memory and onstack's walker over it. */
#ifndef ONSTACK_TRUTH_REMOTE_H
#define ONSTACK_TRUTH_REMOTE_H

#include "sampler/unwind/unwinder.h"

#include <sys/types.h>
#include <ucontext.h>

#define TRUTH_WINDOW 8192u

/* One stopped thread's memory, good until it runs again. */
typedef struct truth_remote {
  pid_t process;
  uint64_t window_low; /* bytes above the stack pointer, read at once */
  uint64_t window_high;
  uint8_t window[TRUTH_WINDOW];
  uint64_t stack_low; /* the mapping that the stack lies in; high 0: not known */
  uint64_t stack_high;
} truth_remote;

bool truth_remote_read(const truth_remote *remote, uint64_t address, void *out, size_t size);

/* The thread has stopped with this stack pointer. */
void truth_remote_look(truth_remote *remote, uint64_t sp);

/* onstack's walk of that thread. */
onstack_walk_result truth_remote_walk(truth_remote *remote, const onstack_registers *registers, ucontext_t *context,
                                      uint64_t *frames, uint32_t capacity);

#endif
