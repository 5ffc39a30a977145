/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/first_ticks.h"

#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/source/arm.h"
#include "sampler/signal/own_threads.h"
#include "sampler/threads/timer.h"

#include <time.h>

#define FIRST_TICKS_NS 20000000u
#define FIRST_TICKS_SOON_NS                                                                                                 \
  100000u /* a timer that is set to a time that has passed ticks at once, not with the kernel's tick */
#define FIRST_TICKS_HANDLER_TRIES 10000u
#define FIRST_TICKS_AGAIN_NS 100000u

/* Of one process each; the child of a fork has a copy. CPU times are of the process, from base_ns on. */
static struct {
  onstack_timer timer;
  uint32_t armed;
  uint32_t over;   /* the tick that was enough has come */
  uint32_t inside; /* handlers (dekker) */
  void (*enough)(void);
  uint64_t base_ns;   /* what the process had used when its ticks began */
  uint64_t tick_ns;   /* of the kernel; 0 if it is not known */
  uint64_t at_ns;     /* when the first tick is due; the others follow a period apart */
  uint64_t before_ns; /* from the kernel's last tick to the beginning, once a tick has come */
  uint64_t ticks;     /* that came, which is as many as were due */
  uint64_t taken_ns;  /* CPU time that they stand for */
} first_ticks;

void onstack_first_ticks_before_fork(void) {
  if (onstack_first_ticks_are_alone() && onstack_observe(&first_ticks.armed)) first_ticks.enough();
  onstack_first_ticks_store_before_fork();
}

void onstack_first_ticks_forked(void) {
  onstack_first_ticks_store_forked();
  first_ticks.armed = first_ticks.over = first_ticks.inside = 0;
  first_ticks.taken_ns = 0;
  first_ticks.timer.state = ONSTACK_TIMER_NONE;
}

static ONSTACK_HANDLER int first_ticks_set(uint64_t now_ns, uint64_t at_ns, uint64_t period_ns) {
  const uint64_t soon_ns = now_ns + FIRST_TICKS_SOON_NS;
  return onstack_timer_set_at(&first_ticks.timer, at_ns > soon_ns ? at_ns : soon_ns, period_ns, true, NULL);
}

/* The timer first expires with the kernel's next tick. */
static bool first_ticks_arm(uint64_t now_ns, uint64_t period_ns) {
  const int32_t clock = CLOCK_PROCESS_CPUTIME_ID;
  first_ticks.timer.state = ONSTACK_TIMER_ARMING;
  onstack_timer_reset(&first_ticks.timer);
  if (onstack_timer_create(&first_ticks.timer, clock, SIGPROF, 0, (uint64_t)(uintptr_t)&first_ticks) < 0) return false;
  onstack_publish(&first_ticks.armed, 1u);
  if (first_ticks_set(now_ns, 0, period_ns) == 0) return true;
  onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id));
  onstack_publish(&first_ticks.armed, 0u);
  return false;
}

bool onstack_first_ticks_begin(void (*enough)(void), uint64_t base_ns) {
  const onstack_session_walk *walk = onstack_first_ticks_walk();
  uint64_t cpu_ns = 0;
  struct onstack_timespec tick = {0, 0};
  if (!onstack_first_ticks_are_taken(onstack_monotonic_ns())) return false;
  if (onstack_load_relaxed(walk->room) > walk->least) return false;
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &cpu_ns)) return false; /* a filter refuses */
  onstack_sys_call2(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick);
  onstack_first_ticks_prepare();
  first_ticks.enough = enough;
  first_ticks.over = 0;
  first_ticks.base_ns = base_ns;
  first_ticks.tick_ns = tick.nanoseconds > 0 ? (uint64_t)tick.nanoseconds : 0;
  first_ticks.at_ns = onstack_arm_random(NULL, (uint32_t)onstack_sys_gettid(), 0, walk->period_ns);
  first_ticks.before_ns = 0;
  first_ticks.ticks = 0;
  first_ticks.taken_ns = 0;
  return first_ticks_arm(cpu_ns, walk->period_ns);
}

bool onstack_first_ticks_are_over(void) { return onstack_observe(&first_ticks.armed) && onstack_observe(&first_ticks.over); }

/* `onstack_own_cpu_ns` is as of the keeper's last look. */
ONSTACK_HANDLER uint64_t onstack_first_ticks_used_ns(void) {
  uint64_t used_ns = 0;
  onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &used_ns);
  const uint64_t others_ns = first_ticks.base_ns + onstack_load_relaxed(&onstack_own_cpu_ns);
  return used_ns > others_ns ? used_ns - others_ns : 0;
}

uint64_t onstack_first_ticks_end(void) {
  uint32_t armed = 1;
  /* The thread that ends and the keeper may both come. */
  if (onstack_load_relaxed(&first_ticks.armed) && onstack_cas(&first_ticks.armed, &armed, 0u)) {
    onstack_fence_dekker();                                            /* before `inside` is read */
    onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id)); /* while it exists, the process's clock moves with the
                                                                          kernel's tick only */
    /* In a process that ends early, the samples stand for all of its time: the last part of a kernel's tick, of which no tick
       tells, is in the samples of other such processes. */
    if (onstack_first_ticks_are_held() && !onstack_observe(&first_ticks.over))
      onstack_store_relaxed(&first_ticks.taken_ns, onstack_first_ticks_used_ns());
  }
  return onstack_load_relaxed(&first_ticks.taken_ns);
}

bool onstack_first_ticks_await_handler(void) {
  for (uint32_t i = 0; i < FIRST_TICKS_HANDLER_TRIES; i++) {
    if (onstack_dekker_load(&first_ticks.inside) == 0) return true;
    onstack_sys_sleep(FIRST_TICKS_AGAIN_NS);
  }
  return false;
}

static ONSTACK_HANDLER void first_ticks_be_over(void) {
  onstack_publish(&first_ticks.over, 1u);
  first_ticks.enough();
}

/* Before Linux 6.4 the first thread gets the ticks, also while it sleeps and others work. A session knows whose they are. */
static ONSTACK_HANDLER bool first_ticks_thread_works(uint64_t used_ns) {
  uint64_t thread_ns = 0;
  onstack_timer_read_clock(CLOCK_THREAD_CPUTIME_ID, &thread_ns);
  return thread_ns >= used_ns / 2;
}

/*
 * The one rule for weights: a tick is due at `at_ns`, which is random, and each period from there on, and every tick counts
 * those that have become due.
 *
 * The kernel looks at CPU timers when its own tick comes (kernel/time/posix-cpu-timers.c), so most ticks of a process of 3 ms
 * never come. To make the sum over many such processes right, each tick of the kernel stands for the time since the one before,
 * also if the process began in between: `before_ns` is that part of the first one.
 *
 * The end depends on the CPU time alone. If it were the tick that is due first after 20 ms, the sum would depend on the phase.
 */
static ONSTACK_HANDLER void first_ticks_tick(ucontext_t *context) {
  const onstack_session_walk *walk = onstack_first_ticks_walk();
  const uint64_t used_ns = onstack_first_ticks_used_ns(), tick_ns = first_ticks.tick_ns, period_ns = walk->period_ns;
  const bool last = used_ns >= FIRST_TICKS_NS, first = first_ticks.taken_ns == 0;
  uint64_t now_ns = 0;
  if (onstack_load_relaxed(&first_ticks.over)) return; /* the session counts what is used until it begins */
  /* If a filter that came later refuses clocks, the next tick would be set to a time that has passed, and come at once. */
  if (used_ns == 0 || !onstack_timer_read_clock(CLOCK_MONOTONIC, &now_ns)) {
    first_ticks_be_over();
    return;
  }
  if (first && tick_ns > 0) first_ticks.before_ns = (tick_ns - used_ns % tick_ns) % tick_ns;
  const uint64_t until_ns = last ? used_ns : used_ns + first_ticks.before_ns;
  const uint64_t due = until_ns < first_ticks.at_ns ? 0 : (until_ns - first_ticks.at_ns) / period_ns + 1;
  const uint64_t weight = due > first_ticks.ticks ? due - first_ticks.ticks : 0;
  const bool put = onstack_first_ticks_are_taken(now_ns) &&
                   (weight == 0 || (weight <= walk->weight_max && first_ticks_thread_works(used_ns) &&
                                    onstack_first_ticks_put((uint32_t)weight, now_ns, context)));
  if (put) first_ticks.ticks += weight;
  if (put) first_ticks.taken_ns = until_ns;
  if (last || !put) {
    first_ticks_be_over();
    return;
  }
  const uint64_t next_ns = first_ticks.at_ns + first_ticks.ticks * period_ns - first_ticks.before_ns; /* more than used_ns */
  const uint64_t others_ns = first_ticks.base_ns + onstack_load_relaxed(&onstack_own_cpu_ns);
  first_ticks_set(others_ns + used_ns, others_ns + (next_ns < FIRST_TICKS_NS ? next_ns : FIRST_TICKS_NS), period_ns);
}

ONSTACK_HANDLER bool onstack_first_ticks_take(const siginfo_t *info, void *context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (void *)&first_ticks) return false;
  if (onstack_own_is(onstack_sys_gettid())) return true;
  /* If another thread is in here, the next tick counts this one as well. */
  if (onstack_dekker_add(&first_ticks.inside, 1u) == 0 && onstack_dekker_load(&first_ticks.armed)) first_ticks_tick(context);
  onstack_dekker_sub(&first_ticks.inside, 1u);
  return true;
}
