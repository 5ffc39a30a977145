/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef HOST_NATIVE_H
#define HOST_NATIVE_H

/* Recursion, libc's qsort with a comparison of ours, printf, malloc. */
void native_work(int rounds);
/* Calls goGrow with `depth`, then burns. */
void native_call_back(int depth, int rounds);
/* Burns at level 1; above it calls goNest with the level below, then burns a little. */
void native_nest(int level, int rounds);
int native_tiny(int x);
int native_tiny_callback(int x);

#endif
