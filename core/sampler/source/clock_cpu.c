/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CPU time, by a timer for each thread. New threads are found by a timer on the process's CPU time
 * (process_tick.h), which is handed on to those that it does not meet (hand_on.h), and a scan takes those that no
 * tick has met for long (sampler/api/consumer.c says why).
 */
#include "sampler/source/clock.h"
#include "sampler/source/threads.h"
#include "sampler/source/arm.h"
#include "sampler/source/process_tick.h"

#include <sched.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <string.h>
#include <time.h>

#define CLOCK_CPU_KERNEL_TICK 4000000u /* where nobody tells */
#define CLOCK_CPU_PROCESSORS 32        /* at work, at most: more are not waited for */
#define CLOCK_CPU_SCAN_PERIODS 3u      /* after which a scan takes a thread that no process tick has met */

static int clock_cpu_probe(int32_t signal) { return onstack_timer_probe(CLOCK_PROCESS_CPUTIME_ID, signal, 0); }

/* Before Linux 6.4 the kernel hands a process-wide signal to the main thread whenever that one takes it, running or not
   (kernel/signal.c, complete_signal; changed for posix timers in 6.4). */
static bool clock_cpu_is_met(void) {
  struct utsname system;
  unsigned major, minor;
  if (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 4);
}

static uint64_t clock_cpu_scan_age(uint64_t period_ns) {
  return clock_cpu_is_met() ? period_ns * CLOCK_CPU_SCAN_PERIODS : 0;
}

/* Of the sessions of a clock other than this one, one with the shortest period; NULL: there are none. */
static onstack_slot *clock_cpu_fastest(const onstack_process_clock *clock, const onstack_slot *self) {
  onstack_slot *fastest = NULL;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_slot *slot = &onstack_slots[i];
    if (slot == self || slot->process_clock != clock) continue;
    if (!fastest || slot->period_ns < fastest->period_ns) fastest = slot;
  }
  return fastest;
}

/* That of the signal, or a free one: there are as many as sessions. */
static onstack_process_clock *clock_cpu_find(int32_t signal) {
  onstack_process_clock *found = NULL;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_slots[i].own_process_clock;
    if (!clock->record) clock->record = onstack_thread_of_process_clock(i);
    if (clock->signal == signal) return clock;
    if (clock->signal == 0 && !found) found = clock;
  }
  return found;
}

/* Not counted against the quota: there are at most ONSTACK_MAX_SESSIONS of them, and without one a session is blind. */
static int clock_cpu_create(onstack_process_clock *clock, int32_t signal) {
  onstack_timer *timer = &clock->record->timer;
  const uint64_t cookie = onstack_thread_cookie(clock->record, clock->generation);
  clock->leader = NULL; /* it does not tick yet */
  onstack_timer_clear(timer);
  onstack_timer_move(timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_ARMING);
  onstack_timer_reset(timer); /* of who had it before: a start may end before this one is set */
  const int result = onstack_timer_create(timer, CLOCK_PROCESS_CPUTIME_ID, signal, 0, cookie);
  if (result < 0)
    onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_NONE);
  else
    clock->signal = signal;
  return result;
}

/* Before any thread is armed, so that the threads cannot use up what the kernel allows. */
static int clock_cpu_join(onstack_slot *slot, const onstack_settings *settings) {
  (void)settings;
  onstack_process_clock *clock = clock_cpu_find(slot->signal);
  const int result = clock->signal == 0 ? clock_cpu_create(clock, slot->signal) : 0;
  if (result == 0) slot->process_clock = clock;
  return result;
}

/* How often the kernel looks at timers of CPU time. */
static uint64_t clock_cpu_kernel_tick(void) {
  struct timespec tick;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0 || tick.tv_sec > 0 || tick.tv_nsec < 1000)
    return CLOCK_CPU_KERNEL_TICK;
  return (uint64_t)tick.tv_nsec;
}

/* That the process may use; no file is read, for the child of a fork. */
static uint32_t clock_cpu_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return CLOCK_CPU_PROCESSORS;
  const int count = CPU_COUNT(&set);
  return count > 0 && count < CLOCK_CPU_PROCESSORS ? (uint32_t)count : CLOCK_CPU_PROCESSORS;
}

/* It counts that session's ticks from now on (sampler/source/process_tick.h). */
static int clock_cpu_lead(onstack_process_clock *clock, onstack_slot *leader) {
  const uint64_t kernel_ns = clock_cpu_kernel_tick();
  onstack_dekker_store(&clock->leader, NULL);
  onstack_threads_wait_outside(&clock->inside); /* a handler that knows the old one may be setting it */
  onstack_store_relaxed(&clock->setting, 0u);   /* one that has ended there has not let go */
  clock->step_ns = leader->period_ns > kernel_ns ? leader->period_ns : kernel_ns;
  onstack_store_relaxed(&clock->spread_ns, kernel_ns * clock_cpu_processors()); /* handlers that begin now read it */
  const int result = onstack_process_begin(clock, leader);
  onstack_dekker_store(&clock->leader, leader);
  return result;
}

/* From here on the process clock ticks for the slot; the fastest of its sessions leads. After the threads are armed, so that
   no handler claims a record meanwhile; threads that could not be listed it finds by itself. */
static int clock_cpu_start(onstack_slot *slot, int listed) {
  onstack_process_clock *clock = slot->process_clock;
  uint64_t now_ns;
  (void)listed;
  /* What the timers that were armed first have told already is accounted for. */
  const uint64_t told_ns = onstack_load_relaxed(&slot->counters.ticks) * slot->period_ns;
  slot->process_start_ns = onstack_process_read(slot, &now_ns) ? (now_ns - told_ns) | 1u : 0;
  onstack_publish(&slot->meets, 1u);
  return clock->leader && clock->leader->period_ns <= slot->period_ns ? 0 : clock_cpu_lead(clock, slot);
}

static void clock_cpu_end(onstack_process_clock *clock) {
  onstack_timer *timer = &clock->record->timer;
  uint64_t now_ns = 0;
  int32_t id;
  onstack_dekker_store(&clock->generation, clock->generation + 1u);
  onstack_threads_wait_outside(&clock->inside); /* one that has seen the generation before may be setting the timer */
  if (onstack_timer_take(timer, ONSTACK_TIMER_STOPPED, &id)) {
    onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &now_ns);
    clock->due = onstack_timer_due(timer, clock->period_ns, now_ns);
    onstack_timer_delete(id);
  } else if (onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_NONE)) { /* made and never set */
    onstack_timer_delete(timer->id);
  }
  clock->signal = 0;
}

/* The last session takes the timer away. */
static void clock_cpu_leave(onstack_slot *slot) {
  onstack_process_clock *clock = slot->process_clock;
  if (!clock || clock->signal == 0) return;
  uint64_t used_ns;
  if (onstack_process_used(slot, &used_ns)) onstack_store_relaxed(&slot->counters.cpu_ns, used_ns);
  onstack_slot *fastest = clock_cpu_fastest(clock, slot);
  if (!fastest)
    clock_cpu_end(clock);
  else if (clock->leader == slot)
    clock_cpu_lead(clock, fastest);
}

static void clock_cpu_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
}

static bool clock_cpu_read(uint32_t tid, uint64_t *ns) { return onstack_timer_read_clock(onstack_timer_cpu_clock(tid), ns); }

/* The last tick of the process. */
static bool clock_cpu_awaits(const onstack_slot *slot) {
  const onstack_process_clock *clock = slot->process_clock;
  return clock && onstack_timer_missing(&clock->record->timer, clock->due) > 0;
}

static void clock_cpu_fill(const onstack_slot *slot, onstack_stats *stats) {
  stats->cpu_ns = onstack_load_relaxed(&slot->counters.cpu_ns);
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) onstack_process_used(slot, &stats->cpu_ns);
}

static void clock_cpu_after_fork(void) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_slots[i].own_process_clock;
    clock->signal = 0;
    clock->leader = NULL;
    clock->setting = 0;
    memset(&clock->inside, 0, sizeof(clock->inside));
    if (clock->record)
      onstack_timer_after_fork(&clock->record->timer); /* POSIX timers are not inherited (timer_create(2)) */
  }
}

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_cpu = {
    .name = "cpu",
    .number = ONSTACK_CLOCK_CPU,
    .kind = ONSTACK_KIND_CPU,
    .accept = onstack_clock_accept_rate,
    .probe = clock_cpu_probe,
    .scan_age = clock_cpu_scan_age,
    .join = clock_cpu_join,
    .start = clock_cpu_start,
    .leave = clock_cpu_leave,
    .arm = clock_cpu_arm,
    .remove = onstack_arm_remove,
    .read = clock_cpu_read,
    .awaits = clock_cpu_awaits,
    .fill = clock_cpu_fill,
    .after_fork = clock_cpu_after_fork,
};
