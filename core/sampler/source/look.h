/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A look at a thread from outside: whether it is blocked, and then where, and in what. The thread is neither signalled nor
 * woken, and may go on meanwhile. What was read of it is believed if its CPU time is the same before and after: then it has not
 * run, so its stack, its locks and its labels stood still.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_LOOK_H
#define ONSTACK_SAMPLER_SOURCE_LOOK_H

#include "sampler/interpreter/interpreter.h"
#include "sampler/session/record.h"
#include "sampler/threads/task.h"

/* ---- what a blocked thread waits for, as the labels of its samples: state, wait, on, holder (wait_labels.c) ---- */

/* They fit into this: names of calls, and at most WAIT_ON_BYTES of what is waited on. */
#define ONSTACK_WAIT_LABEL_BYTES 256u

/*
 * Writes the labels of a thread that is blocked in `call` ("key\0value\0...", ONSTACK_WAIT_LABEL_BYTES of room) and returns
 * their length. Looks at the thread's
 * descriptors and locks, wakes nobody; the thread may go on meanwhile, then the text is worth nothing. Ordinary threads.
 */
ONSTACK_INTERNAL uint32_t onstack_wait_labels(uint32_t tid, const onstack_task_call *call, char *out);

/* ---- looks ---- */

#define ONSTACK_LOOK_LABEL_BYTES (ONSTACK_WAIT_LABEL_BYTES + ONSTACK_MAX_LABEL_BYTES)

/* Where a look writes to. */
typedef struct onstack_look {
  onstack_walked_stack stack; /* into the arrays below */
  uint32_t wait_label_bytes;  /* of its labels, the first ones: state, wait, on, holder */
  uint64_t frames[ONSTACK_MAX_DEPTH];
  uint8_t unwound_by[ONSTACK_MAX_DEPTH];
  char labels[ONSTACK_LOOK_LABEL_BYTES];
  _Alignas(uint64_t) uint8_t interpreted[ONSTACK_INTERPRETED_BYTES(ONSTACK_MAX_DEPTH)];
} onstack_look;

typedef enum onstack_look_status {
  ONSTACK_LOOK_BLOCKED,
  ONSTACK_LOOK_RUNS,    /* or waits for a processor */
  ONSTACK_LOOK_MOVED,   /* it ran while it was looked at */
  ONSTACK_LOOK_REFUSED, /* the kernel does not tell */
  ONSTACK_LOOK_GONE
} onstack_look_status;

/* `cpu_ns`: its CPU time, read before. `hints`: of interpreters (onstack_interpreted_copy_of). A thread of ours, while the slot
   runs. */
ONSTACK_INTERNAL onstack_look_status onstack_look_at(const onstack_slot *slot, uint32_t tid, uint64_t cpu_ns,
                                                     uint64_t *hints, onstack_look *look);

/* Whether the kernel tells of blocked threads, and tells the truth (an emulator hands the host's registers through): tried,
   once a process, on a thread of ours. Start only, under the control lock. */
ONSTACK_INTERNAL bool onstack_look_works(void);

#endif
