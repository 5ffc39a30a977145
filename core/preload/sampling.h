/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The session of this process, its profile, and the files made of it. Knows nothing of how a process ends.
 * Owner: the keeper thread alone (keeper.h); nothing here locks.
 */
#ifndef ONSTACK_PRELOAD_SAMPLING_H
#define ONSTACK_PRELOAD_SAMPLING_H

#include "preload/environment.h"

/* The options of the session that the settings ask for, but for the sink. Any thread. */
ONSTACK_INTERNAL void onstack_sampling_options(const onstack_environment *settings, onstack_options *options);

/* Starts sampling into file `number` (-1: the only one). `tries`: how often it is tried again while no thread can be made. A
   failure is reported on stderr. Returns 0 or the code. */
#define ONSTACK_SAMPLING_TRIES 50u /* each 10 ms */
ONSTACK_INTERNAL int onstack_sampling_start(const onstack_environment *settings, int number, uint32_t tries);

/* True between a start that succeeded and the end. Any thread. */
ONSTACK_INTERNAL bool onstack_sampling_is_on(void);

/* Looks once, before the first save of a heap profile, for allocators whose blocks it lacks: a signal may end the host before
   its last save. Context: onstack_status_find_unseen. */
ONSTACK_INTERNAL void onstack_sampling_find_unseen(const onstack_environment *settings);

/* Writes what there is so far, and goes on. A failure stays silent: the end tells it. Nothing is written without
   samples. Returns true if a profile was written. */
ONSTACK_INTERNAL bool onstack_sampling_save(const onstack_environment *settings);

/* Takes what children have sampled that have no session of their own: what is not young any more, or `all`. Returns true if
   there was anything. */
ONSTACK_INTERNAL bool onstack_sampling_collect(bool all);

/* Replaces the status file, if one is asked for; with what each module lost, once sampling has ended. 0 or what went wrong,
   which stays silent here: the end tells it. */
ONSTACK_INTERNAL int onstack_sampling_tell(const onstack_environment *settings);

/*
 * Stops, writes profile and status, frees. What cannot be written is reported on stderr, in one line, and so is why a
 * program that ran for a while has no samples. A profile without
 * samples is written too, but not among many (with "%p": a shell's children would leave hundreds of them).
 * Also where nothing was started: then there is an empty profile. `ask_malloc`: as onstack_memory_text; saves do not.
 */
ONSTACK_INTERNAL void onstack_sampling_end(const onstack_environment *settings, bool ask_malloc);

/* In the child of a fork: the parent's session and profile are forgotten. They may be in any state, so they are given
   up rather than freed. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_sampling_forget(void);

#endif
