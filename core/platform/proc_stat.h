/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* /proc/PID/stat and /proc/PID/task/TID/stat (proc(5)). Ordinary threads. */
#ifndef ONSTACK_PLATFORM_PROC_STAT_H
#define ONSTACK_PLATFORM_PROC_STAT_H

#include "platform/defs.h"

/* Where the state stands in a line, behind the name, which may hold spaces and parentheses; NULL: nowhere. */
ONSTACK_INTERNAL const char *onstack_proc_stat_state(const char *line);

/* How long ago the thread or process began, by the line from the state on; 0: it does not say. */
ONSTACK_INTERNAL uint64_t onstack_proc_stat_age_ns(const char *state);

/* The stack pointer at the entry of this process's program; 0: nobody says. */
ONSTACK_INTERNAL uint64_t onstack_proc_stat_main_sp(void);

#endif
