/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a program gives to be stepped through. It is linked with the tracer into one executable that runs itself a second
 * time: without address randomization both have the same layout, so the tables that the tracer derives from its own
 * memory describe the subject's.
 */
#ifndef ONSTACK_TRUTH_SUBJECT_H
#define ONSTACK_TRUTH_SUBJECT_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True: every instruction from the program's first on, the dynamic linker included, all threads. False: only threads
   that the subject makes, from their first instruction on; subject_run is called in one. */
extern const bool subject_whole;
extern const char subject_name[];

/* Work that would only take time to step through (initialization), and loading of libraries: called before subject_run,
   not stepped, and in the tracer too. May be left out. */
void subject_prepare(void);

/* Returns 0 if what it computed is right. */
int subject_run(void);

#ifdef __cplusplus
}
#endif

#endif
