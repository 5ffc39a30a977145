/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TESTBURN_BURN_H
#define TESTBURN_BURN_H

/* Both spend `milliseconds` of the calling thread's CPU time in testburn_leaf, called by testburn_caller. */
void testburn_caller(int milliseconds);

/* The same on a thread that Go does not know, named `name`; returns when it has ended. 0, or an errno. */
int testburn_on_thread(const char *name, int milliseconds);

#endif
