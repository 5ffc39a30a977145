/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The keeper: a thread "onstack-keeper" that alone starts, saves and ends the session, with every signal blocked. Who
 * wants something sets a word and waits for a while; so it can be asked for from a signal handler, from a thread that
 * holds the allocator's lock, or from one that is about to become another program, and the worst that happens there is
 * that the wait ends without a result.
 *
 * It starts the session when the first ticks were enough (first_ticks.h), or where there are none a moment after the program
 * has begun: one that ends before (true, most of a shell's children) pays for a thread and no more, or for a file where it was
 * sampled. For a heap profile the program waits: what it keeps to its end it mostly allocates at its beginning. While it
 * samples, it saves the profile now and then: ends that nobody can catch (SIGKILL, a fault, a runtime's own exit_group) lose
 * the last seconds only.
 */
#ifndef ONSTACK_PRELOAD_KEEPER_H
#define ONSTACK_PRELOAD_KEEPER_H

#include "preload/environment.h"

/* Makes the thread; `settings` live for ever. `await`: at once, and returns when the session has begun, or after a second: a
   constructor inside of dlopen holds a lock that the start may need. `rests`: not before onstack_keeper_begin. A failure is
   reported on stderr. Context: constructor, child of a fork. */
ONSTACK_INTERNAL void onstack_keeper_start(const onstack_environment *settings, bool await, bool rests);

/* The first ticks of this process were enough (preload/first_ticks.h). Signal-safe; nothing in another process. */
ONSTACK_INTERNAL void onstack_keeper_begin(void);

/* Flips sampling on or off. Signal-safe. */
ONSTACK_INTERNAL void onstack_keeper_toggle(void);

/* Asks for a dump; several that come while one is written are one. Signal-safe. */
ONSTACK_INTERNAL void onstack_keeper_dump(void);

/* Writes the profile so far and goes on. Waits at most `seconds`. Returns true if a profile lies there now. Signal-safe;
   nothing in another process. */
ONSTACK_INTERNAL bool onstack_keeper_save(uint32_t seconds);

/* Ends for good. Waits at most `seconds`. `at_once`: by a call that a handler may make, which may have interrupted malloc.
   Signal-safe; nothing in another process. */
ONSTACK_INTERNAL void onstack_keeper_end(uint32_t seconds, bool at_once);

/* The first thread ends, and not the process with it. Context: that thread; nothing in another process. */
ONSTACK_INTERNAL void onstack_keeper_left(void);

/* True in the process that has a keeper: not in a child made by vfork or a raw clone. Signal-safe. */
ONSTACK_INTERNAL bool onstack_keeper_is_here(void);

/* True in a child that a raw clone made, whatever its id. Signal-safe. */
ONSTACK_INTERNAL bool onstack_keeper_is_copied(void);

/* In the child of a fork, where the thread does not exist. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_keeper_forget(void);

#endif
