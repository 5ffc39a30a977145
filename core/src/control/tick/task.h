/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel says about one thread of the process. Any thread. */
#ifndef ONSTACK_CONTROL_TICK_TASK_H
#define ONSTACK_CONTROL_TICK_TASK_H

#include "base/defs.h"

/* By raw tgkill of signal 0, which costs a tenth of a look into /proc. */
ONSTACK_INTERNAL bool onstack_task_is_gone(uint32_t tid);

/* Its name as 16 NUL-padded bytes. False if it is gone. */
ONSTACK_INTERNAL bool onstack_task_name(uint32_t tid, uint64_t name[2]);

/* Its CPU time, modulo 2^32; 0: it is gone. */
ONSTACK_INTERNAL uint32_t onstack_task_cpu_us(uint32_t tid);

/* Whether it blocks the signal; negative: nobody can tell. */
ONSTACK_INTERNAL int onstack_task_blocks(uint32_t tid, int32_t signal);

/* Neither running nor waiting for a processor (or for a debugger, which stops it at that very place). True if nobody says. */
ONSTACK_INTERNAL bool onstack_task_sleeps(uint32_t tid);

#endif
