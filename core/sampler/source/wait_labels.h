/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a blocked thread waits for, as the labels of its samples: state, wait, on, holder. */
#ifndef ONSTACK_SAMPLER_SOURCE_WAIT_LABELS_H
#define ONSTACK_SAMPLER_SOURCE_WAIT_LABELS_H

#include "sampler/threads/task.h"

/* They fit into this: names of calls, and at most WAIT_ON_BYTES of what is waited on. */
#define ONSTACK_WAIT_LABEL_BYTES 256u

/*
 * Writes the labels of a thread that is blocked in `call` ("key\0value\0...", ONSTACK_WAIT_LABEL_BYTES of room) and returns
 * their length. Looks at the thread's
 * descriptors and locks, wakes nobody; the thread may go on meanwhile, then the text is worth nothing. Ordinary threads.
 */
ONSTACK_INTERNAL uint32_t onstack_wait_labels(uint32_t tid, const onstack_task_call *call, char *out);

#endif
