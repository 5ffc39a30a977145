/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel says about one thread of the process. Any thread. */
#ifndef ONSTACK_SAMPLER_THREADS_TASK_H
#define ONSTACK_SAMPLER_THREADS_TASK_H

#include "platform/defs.h"

/* True if the process has no such thread, or if it is the first one and has ended. By raw system calls, which cost a tenth of
   a look into /proc. */
ONSTACK_INTERNAL bool onstack_task_is_gone(uint32_t tid);

/* Its name as 16 NUL-padded bytes. False if it is gone. */
ONSTACK_INTERNAL bool onstack_task_name(uint32_t tid, uint64_t name[2]);

/* Its CPU time, modulo 2^32; 0: it is gone. */
ONSTACK_INTERNAL uint32_t onstack_task_cpu_us(uint32_t tid);

/* Whether it blocks the signal; negative: nobody can tell. */
ONSTACK_INTERNAL int onstack_task_blocks(uint32_t tid, int32_t signal);

/* Whether it runs, or waits for a processor, and lets the signal come. False if nobody says. */
ONSTACK_INTERNAL bool onstack_task_runs_open(uint32_t tid, int32_t signal);

/* Whether the signal waits for that thread alone, or a debugger has stopped it, on its way to the handler perhaps. False if
   nobody says. */
ONSTACK_INTERNAL bool onstack_task_awaits(uint32_t tid, int32_t signal);

/* Sends it a signal that looks like `ticks` expiries of that timer, with that value; signal 0 asks whether this process may.
   0 or -errno. */
ONSTACK_INTERNAL int onstack_task_send_tick(uint32_t tid, int32_t signal, int32_t timer, uint64_t ticks, uint64_t cookie);

/* What a thread is blocked in. */
typedef struct onstack_task_call {
  int64_t number;        /* of the system call; -1: it is blocked outside of one, by a page that is being read */
  uint64_t arguments[6]; /* as in the registers; 0 outside of a call */
  uint64_t sp, pc;
} onstack_task_call;

typedef enum onstack_task_call_status {
  ONSTACK_TASK_BLOCKED,
  ONSTACK_TASK_RUNS,    /* or waits for a processor */
  ONSTACK_TASK_REFUSED, /* the kernel does not tell this process (proc(5), /proc/pid/syscall) */
  ONSTACK_TASK_GONE
} onstack_task_call_status;

/* By /proc/self/task/T/syscall, which neither signals nor wakes. */
ONSTACK_INTERNAL onstack_task_call_status onstack_task_blocked_in(uint32_t tid, onstack_task_call *call);

/* How long it has waited for a processor, in ns, and how many timeslices it has had (Documentation/scheduler/sched-stats.rst).
   False, and nothing is written: nobody tells, as where there is no descriptor left. */
ONSTACK_INTERNAL bool onstack_task_waited(uint32_t tid, uint64_t *ns, uint64_t *timeslices);

/* How long ago it began, in ns, or up to a tick of the kernel's more (starttime in proc(5)); 0: nobody tells. */
ONSTACK_INTERNAL uint64_t onstack_task_age_ns(uint32_t tid);

/* Its state, a letter as in proc(5); 0: nobody tells. */
ONSTACK_INTERNAL char onstack_task_state(uint32_t tid);

/* How a first thread has ended that the kernel keeps as a zombie: as waitpid(2) would report it (exit_code in proc(5)). -1: it
   has not ended, or /proc cannot be read. */
ONSTACK_INTERNAL int onstack_task_end(uint32_t tid);

/* Neither running nor waiting for a processor (or for a debugger, which stops it at that very place). True if nobody says. */
ONSTACK_INTERNAL bool onstack_task_sleeps(uint32_t tid);

/* ---- the kernel's list of the threads ---- */

/*
 * Visits the thread ids of /proc/self/task, in no order. A thread that comes or ends meanwhile may be visited or not. Returns
 * -errno where the list cannot be read, or not to its end; -ENOENT where it is empty.
 *
 * Any thread, no allocation: our own threads look each 10 ms, and the child of a fork at that instant would find the lock of an
 * allocator without atfork handlers (a sanitizer's) taken for ever.
 */
ONSTACK_INTERNAL int onstack_task_list_each(void (*visit)(void *data, uint32_t tid), void *data);

/* How many the process has; 0, and errno says why: not known. Any thread. */
ONSTACK_INTERNAL uint64_t onstack_task_list_number(void);

/*
 * True if /proc shows another PID namespace than that of the calling thread (unshare or clone with CLONE_NEWPID, /proc not
 * mounted again): the list's ids are then not those that system calls take. False where nobody can tell.
 */
ONSTACK_INTERNAL bool onstack_task_list_is_foreign(void);

/* ---- waiting for one ---- */

/*
 * The pause between two looks at what another thread will have done in a moment; `round` counts the looks from 0. First the
 * processor is offered, then the caller sleeps: what it waits for may need this very processor, and a thread with a
 * real-time policy gives it to no ordinary one by sched_yield. Ordinary threads.
 */
ONSTACK_INTERNAL void onstack_moment(uint32_t round);

#endif
