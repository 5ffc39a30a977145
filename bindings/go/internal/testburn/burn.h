/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TESTBURN_BURN_H
#define TESTBURN_BURN_H

/* Both spend `milliseconds` of the calling thread's CPU time in testburn_leaf, called by testburn_caller. */
void testburn_caller(int milliseconds);

/* The same, a quarter each in testburn::cxx(int, char const*), two symbols for testburn::rust, and testburn::v0. */
void testburn_mangled(int milliseconds);

/* The same on a thread that Go does not know, named `name`; returns when it has ended. 0, or an errno. */
int testburn_on_thread(const char *name, int milliseconds);

/* `threads` threads that Go does not know wait in poll, for 5 ms at a time, until testburn_end_polls; how many of their polls
   ended early with EINTR, of how many. -1: a thread could not be made. */
int testburn_begin_polls(int threads);
void testburn_end_polls(long *early, long *all);

#endif
