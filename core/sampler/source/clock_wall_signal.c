/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Real time, by a timer for each thread: for threads that sleep as well, which only a list of the threads can find. */
#include "sampler/source/clock.h"
#include "sampler/threads/task.h"
#include "sampler/source/arm.h"

#include <time.h>

#define CLOCK_WALL_SIGNAL_DOUBT_NS 500000000u /* half of the time between two looks */

static int clock_wall_signal_probe(int32_t signal) {
  return onstack_timer_probe(CLOCK_MONOTONIC, signal, (uint32_t)onstack_sys_gettid());
}

static void clock_wall_signal_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_arm(slot, record, tid, CLOCK_MONOTONIC);
}

/* The clock goes on for a thread that has ended; its ticks do not. */
static bool clock_wall_signal_read(uint32_t tid, uint64_t *ns) {
  return !onstack_task_is_gone(tid) && onstack_timer_read_clock(CLOCK_MONOTONIC, ns);
}

/* A thread that has had no tick, though it takes the signal, is a new one: it came under the id of one that ended, whose
   timer goes on for nobody. */
static bool clock_wall_signal_doubts(const onstack_slot *slot, uint32_t tid) {
  return slot->period_ns <= CLOCK_WALL_SIGNAL_DOUBT_NS && onstack_task_blocks(tid, slot->signal) == 0;
}

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_wall_signal = {
    .name = "wall-signal",
    .number = ONSTACK_CLOCK_WALL_SIGNAL,
    .kind = ONSTACK_KIND_WALL,
    .filters = true,
    .accept = onstack_clock_accept_rate,
    .probe = clock_wall_signal_probe,
    .scan_age = onstack_clock_scan_all,
    .start = onstack_clock_start_listed,
    .arm = clock_wall_signal_arm,
    .remove = onstack_arm_remove,
    .read = clock_wall_signal_read,
    .doubts = clock_wall_signal_doubts,
};
