/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the C programs of this directory. They run without a test framework, since some of them run in a virtual
 * machine and some end by a signal: a check prints one line, "ok <name>: <what was seen>" or "not ok ...", which run.sh
 * counts; "skip <name>: <why>" is neither.
 */
#ifndef COEXIST_SUPPORT_H
#define COEXIST_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Prints the line and remembers a failure; `why` is printf's. Returns `good`. */
bool check(bool good, const char *name, const char *why, ...) __attribute__((format(printf, 3, 4)));
void skip(const char *name, const char *why);
int check_status(void); /* for the end of main: 0, or 1 after a failure */

double thread_cpu(void);  /* CPU seconds of the calling thread */
double process_cpu(void); /* of the process */
void burn(double cpu_seconds);

/* SIGPROF's action as the kernel keeps it: libc hides the restorer and edits the flags. */
typedef struct raw_action {
  uint64_t handler, flags, restorer, mask;
} raw_action;
raw_action current_action(void);
bool same_action(const raw_action *a, const raw_action *b);

#endif
