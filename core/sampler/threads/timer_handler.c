/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/threads/timer.h"

#include "platform/sys.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

ONSTACK_INTERNAL_DEFINE uint32_t onstack_timers_left;

ONSTACK_HANDLER bool onstack_timer_take(onstack_timer *timer, onstack_timer_state to, int32_t *id) {
  if (!onstack_timer_move(timer, ONSTACK_TIMER_ARMED, to)) return false;
  *id = onstack_load_relaxed(&timer->id);
  return true;
}

void onstack_timer_clear(onstack_timer *timer) {
  onstack_timer_move(timer, ONSTACK_TIMER_REFUSED, ONSTACK_TIMER_NONE);
  onstack_timer_move(timer, ONSTACK_TIMER_UNWANTED, ONSTACK_TIMER_NONE);
  onstack_timer_move(timer, ONSTACK_TIMER_STOPPED, ONSTACK_TIMER_NONE);
}

void onstack_timer_after_fork(onstack_timer *timer) { timer->state = ONSTACK_TIMER_NONE; }

ONSTACK_HANDLER void onstack_timer_reset(onstack_timer *timer) {
  onstack_store_relaxed(&timer->ticks, 0u);
  onstack_store_relaxed(&timer->first, 0u);
  onstack_store_relaxed(&timer->before, (uint16_t)0);
}

/* Per-thread CPU clock of another thread (include/linux/posix-timers.h): ~tid << 3 | PERTHREAD | SCHED. */
ONSTACK_HANDLER int32_t onstack_timer_cpu_clock(uint32_t tid) { return (int32_t)((~tid << 3) | 6u); }

static ONSTACK_HANDLER uint64_t timer_nanoseconds(const struct onstack_timespec *time) {
  return (uint64_t)time->seconds * 1000000000u + (uint64_t)time->nanoseconds;
}

static ONSTACK_HANDLER uint32_t timer_units(uint64_t ns) {
  return (uint32_t)((ns + ONSTACK_TIMER_UNIT - 1) / ONSTACK_TIMER_UNIT);
}

static ONSTACK_HANDLER uint32_t timer_instant(uint64_t ns) {
  const uint32_t units = timer_units(ns);
  return units ? units : 1;
}

ONSTACK_HANDLER bool onstack_timer_read_clock(int32_t clock, uint64_t *ns) {
  struct onstack_timespec now = {0, 0};
  if (onstack_sys_call2(SYS_clock_gettime, clock, (long)&now) < 0) return false;
  *ns = timer_nanoseconds(&now);
  return true;
}

static ONSTACK_HANDLER int timer_make(int32_t clock, int32_t signal, uint32_t tid, uint64_t cookie, int32_t *id) {
  struct onstack_kernel_sigevent event;
  event.value = cookie;
  event.signal = signal;
  event.notify = tid ? ONSTACK_SIGEV_THREAD_ID : ONSTACK_SIGEV_SIGNAL;
  event.tid = (int32_t)tid;
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(event.pad); i++) *(volatile int32_t *)&event.pad[i] = 0;
  return onstack_sys_timer_create(clock, &event, id);
}

ONSTACK_HANDLER int onstack_timer_create(onstack_timer *timer, int32_t clock, int32_t signal, uint32_t tid,
                                         uint64_t cookie) {
  int32_t id = -1;
  const int result = timer_make(clock, signal, tid, cookie, &id);
  if (result == 0) onstack_store_relaxed(&timer->id, id);
  return result;
}

static ONSTACK_HANDLER struct onstack_timespec timer_timespec(uint64_t nanoseconds) {
  return (struct onstack_timespec){(int64_t)(nanoseconds / 1000000000u), (int64_t)(nanoseconds % 1000000000u)};
}

static ONSTACK_HANDLER int timer_tick_at(onstack_timer *timer, int flags, uint64_t first_ns, uint64_t period_ns,
                                         uint64_t *left_ns) {
  const struct onstack_kernel_itimerspec spec = {timer_timespec(period_ns), timer_timespec(first_ns)};
  struct onstack_kernel_itimerspec old;
  /* Before it can tick: a tick is checked against state and id. */
  onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_ARMED);
  const int result = onstack_sys_timer_settime(onstack_load_relaxed(&timer->id), flags, &spec, left_ns ? &old : NULL);
  if (result == 0 && left_ns) *left_ns = timer_nanoseconds(&old.value);
  return result;
}

/* The first tick's instant is accounted before it is set: a tick that came before its time would make the account wrong, and
   between two clocks the caller may wait for a processor. Where a filter refuses to read the clock, it is not known. */
ONSTACK_HANDLER int onstack_timer_set(onstack_timer *timer, int32_t clock, uint64_t first_ns, uint64_t period_ns) {
  uint64_t now;
  const bool known = onstack_timer_read_clock(clock, &now);
  if (known) first_ns += now;
  if (known) onstack_store_relaxed(&timer->first, timer_instant(first_ns));
  return timer_tick_at(timer, known ? TIMER_ABSTIME : 0, first_ns, period_ns, NULL);
}

ONSTACK_HANDLER void onstack_timer_due_from(onstack_timer *timer, uint64_t from_ns) {
  onstack_store_relaxed(&timer->ticks, 0u);
  onstack_store_relaxed(&timer->first, timer_instant(from_ns));
}

ONSTACK_HANDLER int onstack_timer_set_at(onstack_timer *timer, uint64_t at_ns, uint64_t period_ns, bool anew,
                                         uint64_t *left_ns) {
  if (anew) onstack_timer_due_from(timer, at_ns);
  return timer_tick_at(timer, TIMER_ABSTIME, at_ns, period_ns, left_ns);
}

ONSTACK_HANDLER int onstack_timer_left(const onstack_timer *timer, uint64_t *ns) {
  struct onstack_kernel_itimerspec spec = {{0, 0}, {0, 0}};
  const int result = onstack_sys_timer_gettime(onstack_load_relaxed(&timer->id), &spec);
  if (result == 0) *ns = timer_nanoseconds(&spec.value);
  return result;
}

/* What cannot be deleted, because of a filter that came later, must not tick on: over SIG_DFL that would kill. Where it
   does, stop leaves our handler (sampler/signal/action.c). EINVAL: there is no such timer, and its number may be somebody
   else's by now. ESRCH: its thread has ended, and with it the ticks (kernel/time/posix-cpu-timers.c, posix_cpu_timer_set). */
ONSTACK_HANDLER void onstack_timer_delete(int32_t id) {
  const struct onstack_kernel_itimerspec never = {{0, 0}, {0, 0}};
  int result = onstack_sys_timer_delete(id);
  if (result == 0 || result == -EINVAL) return;
  result = onstack_sys_timer_settime(id, 0, &never, NULL);
  if (result < 0 && result != -ESRCH) onstack_add_relaxed(&onstack_timers_left, 1u);
}

uint32_t onstack_timer_due(const onstack_timer *timer, uint64_t period_ns, uint64_t now_ns) {
  const uint32_t ticks = onstack_load_relaxed(&timer->ticks), first = onstack_load_relaxed(&timer->first);
  if (first == 0 || now_ns == 0) return ticks;
  /* Since the first tick that has not come; rounded down, as no tick is due before its time. */
  const int32_t late = (int32_t)((uint32_t)(now_ns / ONSTACK_TIMER_UNIT) - first - timer_units((uint64_t)ticks * period_ns));
  return late < 0 ? ticks : ticks + 1 + (uint32_t)((uint64_t)late * ONSTACK_TIMER_UNIT / period_ns);
}

uint32_t onstack_timer_missing(const onstack_timer *timer, uint32_t due) {
  if (onstack_timer_state_of(timer) != ONSTACK_TIMER_STOPPED) return 0;
  const int32_t missing = (int32_t)(due - onstack_load_relaxed(&timer->ticks));
  return missing > 0 ? (uint32_t)missing : 0;
}

/* A filter may let timers be made but not set, or not deleted. */
int onstack_timer_probe(int32_t clock, int32_t signal, uint32_t tid) {
  const struct onstack_kernel_itimerspec never = {{0, 0}, {0, 0}};
  int32_t id = -1;
  int result = timer_make(clock, signal, tid, 0, &id);
  if (result < 0) return result;
  result = onstack_sys_timer_settime(id, 0, &never, NULL);
  int deleted = onstack_sys_timer_delete(id);
  return result < 0 ? result : deleted;
}
