/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clock `cpu`: a POSIX timer on the CPU time of each thread, made by raw system calls so that any thread of the process
 * can be given one without its cooperation, from start (all that exist) and from the handler (all that come later).
 *
 * New threads are found by a process-wide timer on the process's CPU time: its signal goes to a running thread
 * (since Linux 6.4). A thread without a timer counts that tick as a sample and gets a timer whose first expiry is
 * uniform in (0, T], so that short-lived threads are neither over- nor under-counted.
 */
#ifndef ONSTACK_HANDLER_CLOCK_CPU_H
#define ONSTACK_HANDLER_CLOCK_CPU_H

#include "handler/slot.h"

/* Gives `record` (claimed for `tid`) a running timer, or marks it ONSTACK_THREAD_UNARMED. Signal-safe. */
ONSTACK_INTERNAL void onstack_clock_cpu_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* Deletes a record's timer, if it has one. Start, stop and housekeeping. Signal-safe. */
ONSTACK_INTERNAL void onstack_clock_cpu_disarm(onstack_thread *record);

/* A process tick met a thread that has a timer: notices when that timer belongs to a dead thread of the same id and
   replaces it. True if it did (the thread counts as new). Signal-safe. */
ONSTACK_INTERNAL bool onstack_clock_cpu_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* Creates the process-wide timer, and starts it. Created before any thread is armed, so that the threads cannot use up
   what the kernel allows; started after, so that no handler claims a record meanwhile. 0 or -errno. Start only. */
ONSTACK_INTERNAL int onstack_clock_cpu_create_process(onstack_slot *slot);
ONSTACK_INTERNAL int onstack_clock_cpu_start_process(onstack_slot *slot);
ONSTACK_INTERNAL void onstack_clock_cpu_stop_process(onstack_slot *slot);

#endif
