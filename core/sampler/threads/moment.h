/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_THREADS_MOMENT_H
#define ONSTACK_SAMPLER_THREADS_MOMENT_H

#include "platform/defs.h"

/*
 * The pause between two looks at what another thread will have done in a moment; `round` counts the looks from 0. First the
 * processor is offered, then the caller sleeps: what it waits for may need this very processor, and a thread with a
 * real-time policy gives it to no ordinary one by sched_yield. Ordinary threads.
 */
ONSTACK_INTERNAL void onstack_moment(uint32_t round);

#endif
