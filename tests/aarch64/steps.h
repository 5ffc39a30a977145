/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A child of this program, single-stepped by ptrace; its calls and returns keep a shadow stack. Parent and child are one
 * program image, so the parent's rule tables describe the child too.
 */
#ifndef ONSTACK_AARCH64_STEPS_H
#define ONSTACK_AARCH64_STEPS_H

#include "sampler/unwind/unwinder.h"

#include <sys/user.h>

#define STEPS_SHADOW 256u
#define STEPS_FRAMES 300u

typedef struct steps_state {
  struct user_regs_struct registers; /* before the instruction that is next */
  const uint64_t *shadow;            /* what a walk must find behind the first frame, the outermost first */
  size_t shadow_count;               /* up to the caller of the workload; below it are main and the rest */
  bool resolves;                     /* at the first instruction of the lazy resolver */
} steps_state;

/* Runs in the child (workload.c). */
void steps_workload(void);

/* Completes the parent's tables, forks, and goes to the workload's first instruction. False: it could not. */
bool steps_begin(void);

/* The state after one more instruction, nothing at first; false at the end of the workload. */
bool steps_next(steps_state *state);

/* The child is killed. */
void steps_end(void);

/* Two words of the child's memory. */
bool steps_read(uint64_t address, uint64_t words[2]);

/* The walk of unwinder `rules` over the child, by a reader of the child's memory. */
onstack_walk_result steps_walk(const steps_state *state, const onstack_reader *reader, uint64_t *frames);
extern const onstack_reader steps_reader;

/* True if the walk's frames up to the workload's caller are the shadow stack's. */
bool steps_exact(const steps_state *state, const uint64_t *frames, uint32_t count);

#endif
