/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TESTNATIVE_NATIVE_H
#define TESTNATIVE_NATIVE_H

#include <stddef.h>

/* Each begins a chain testnative_outer, testnative_middle, testnative_inner without frame pointers. */
void testnative_run_spin(int milliseconds);
void testnative_run_callback(size_t handle);
void testnative_run_crash(void);
void testnative_run_sleep(int milliseconds);
void testnative_run_malloc(int milliseconds);

/* testnative_run_spin on a thread that Go does not know; returns when it has ended. 0, or an errno. */
int testnative_run_thread(int milliseconds);

#endif
