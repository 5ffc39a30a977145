/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/tick/clock.h"

#include "base/sys.h"
#include "handler/tick/own_threads.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

/* How often a process tick may meet a thread between two of its own ticks before we doubt its timer. Both come at
   rate 1/T of the thread's CPU time, so eight in a row do not happen by chance to a living timer. */
#define CLOCK_DOUBT 8u

/* Per-thread CPU clock of another thread (include/linux/posix-timers.h): ~tid << 3 | PERTHREAD | SCHED. */
ONSTACK_HANDLER int32_t onstack_clock_of_thread(uint32_t tid) { return (int32_t)((~tid << 3) | 6u); }

/* A well-mixed number in (0, period]: splitmix64 over what differs between calls. Statistical, not secret. */
static ONSTACK_HANDLER uint64_t clock_random(const onstack_thread *record, uint32_t tid, uint32_t generation,
                                             uint64_t period_ns) {
  struct onstack_timespec now = {0, 0};
  onstack_sys_call2(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now);
  uint64_t x = (uint64_t)(uintptr_t)record ^ ((uint64_t)tid << 32) ^ (uint64_t)now.nanoseconds ^ generation;
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x % period_ns + 1;
}

ONSTACK_HANDLER uint64_t onstack_clock_random(const onstack_slot *slot, const onstack_thread *record, uint32_t tid) {
  return clock_random(record, tid, slot->generation, slot->period_ns);
}

static ONSTACK_HANDLER struct onstack_timespec clock_timespec(uint64_t nanoseconds) {
  return (struct onstack_timespec){(int64_t)(nanoseconds / 1000000000u), (int64_t)(nanoseconds % 1000000000u)};
}

static ONSTACK_HANDLER bool clock_take_quota(void) {
  if (onstack_add_relaxed(&onstack_timers_held, 1u) < onstack_load_relaxed(&onstack_timers_allowed)) return true;
  onstack_sub_relaxed(&onstack_timers_held, 1u);
  return false;
}

static ONSTACK_HANDLER int clock_create(int32_t clock, int32_t signal, uint32_t tid, uint64_t cookie, int32_t *timer) {
  struct onstack_kernel_sigevent event;
  event.value = cookie;
  event.signal = signal;
  event.notify = tid ? ONSTACK_SIGEV_THREAD_ID : ONSTACK_SIGEV_SIGNAL;
  event.tid = (int32_t)tid;
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(event.pad); i++) *(volatile int32_t *)&event.pad[i] = 0;
  return onstack_sys_timer_create(clock, &event, timer);
}

/* What cannot be deleted, because of a filter that came later, must not tick on: over SIG_DFL that would kill. Where it
   does, stop leaves our handler (control/signal/action.c). EINVAL: there is no such timer, and its number may be somebody else's
   by now. ESRCH: its thread has ended, and with it the ticks (kernel/time/posix-cpu-timers.c, posix_cpu_timer_set). */
ONSTACK_HANDLER void onstack_clock_end(int32_t timer) {
  const struct onstack_kernel_itimerspec never = {{0, 0}, {0, 0}};
  int result = onstack_sys_timer_delete(timer);
  if (result == 0 || result == -EINVAL) return;
  result = onstack_sys_timer_settime(timer, 0, &never);
  if (result < 0 && result != -ESRCH) onstack_add_relaxed(&onstack_timers_left, 1u);
}

static ONSTACK_HANDLER void clock_delete(int32_t timer) {
  if (timer == ONSTACK_THREAD_BY_TICKER) return;
  onstack_clock_end(timer);
  onstack_sub_relaxed(&onstack_timers_held, 1u);
}

static ONSTACK_HANDLER int32_t clock_of(const onstack_slot *slot, uint32_t tid) {
  if (slot->clock == ONSTACK_CLOCK_WALL) return CLOCK_MONOTONIC;
  return onstack_clock_of_thread(tid);
}

static ONSTACK_HANDLER bool clock_read(int32_t clock, uint64_t *ns) {
  struct onstack_timespec now = {0, 0};
  if (onstack_sys_call2(SYS_clock_gettime, clock, (long)&now) < 0) return false;
  *ns = (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
  return true;
}

ONSTACK_HANDLER bool onstack_clock_read(const onstack_slot *slot, uint32_t tid, uint64_t *ns) {
  return clock_read(clock_of(slot, tid), ns);
}

ONSTACK_HANDLER bool onstack_clock_read_process(const onstack_slot *slot, uint64_t *ns) {
  if (!clock_read(CLOCK_PROCESS_CPUTIME_ID, ns)) return false;
  if (!slot->own_threads) *ns -= onstack_load_relaxed(&onstack_own_cpu_ns);
  return true;
}

/* What is not armed has nothing due (onstack_clock_missing). */
static ONSTACK_HANDLER void clock_forget_ticks(onstack_thread *record) {
  onstack_store_relaxed(&record->ticks, 0u);
  onstack_store_relaxed(&record->first_us, 0u);
}

/*
 * Ticks from `first` nanoseconds on. The same instant stands in the books before it is set: a tick that came before its
 * time would make them wrong, and between two clocks the caller may wait for a processor. Where a filter refuses to read
 * the clock, it is not known (0).
 */
static ONSTACK_HANDLER int clock_set(int32_t clock, uint64_t period_ns, onstack_thread *record, int32_t timer,
                                     uint64_t first) {
  uint64_t now;
  const bool known = clock_read(clock, &now);
  if (known) first += now;
  struct onstack_kernel_itimerspec spec = {clock_timespec(period_ns), clock_timespec(first)};
  if (known) onstack_store_relaxed(&record->first_us, (uint32_t)(first / 1000u) | 1u);
  /* The id is known to the record before the timer can tick: a tick is checked against it. */
  onstack_publish(&record->timer, timer);
  return onstack_sys_timer_settime(timer, known ? TIMER_ABSTIME : 0, &spec);
}

/* Takes the timer away from the record, and writes down what has been due. */
static int32_t clock_settle(int32_t clock, uint64_t period_ns, onstack_thread *record) {
  /* Housekeeping may be giving the record of a dead thread back at this moment: one of us deletes its timer. */
  const int32_t timer = onstack_exchange(&record->timer, ONSTACK_THREAD_UNARMED);
  const uint32_t ticks = onstack_load_relaxed(&record->ticks), first = onstack_load_relaxed(&record->first_us);
  uint64_t now;
  if (timer < 0) return timer;
  uint32_t due = ticks;
  if (first != 0 && clock_read(clock, &now)) {
    /* Since the first tick that has not come; in 32 bits, which holds differences of half an hour. */
    uint64_t came = (uint64_t)ticks * period_ns / 1000u;
    int32_t late = (int32_t)((uint32_t)(now / 1000u) - first - (uint32_t)came);
    if (late >= 0) due += 1 + (uint32_t)((uint64_t)late * 1000u / period_ns);
  }
  onstack_store_relaxed(&record->due, due);
  onstack_publish(&record->timer, ONSTACK_THREAD_SETTLED);
  return timer;
}

void onstack_clock_settle(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  const int32_t timer = clock_settle(clock_of(slot, tid), slot->period_ns, record);
  if (timer >= 0) clock_delete(timer);
}

uint32_t onstack_clock_missing(const onstack_thread *record) {
  if (onstack_load_relaxed(&record->timer) != ONSTACK_THREAD_SETTLED) return 0;
  int32_t missing = (int32_t)(onstack_load_relaxed(&record->due) - onstack_load_relaxed(&record->ticks));
  return missing > 0 ? (uint32_t)missing : 0;
}

ONSTACK_HANDLER_APART void onstack_clock_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  int32_t timer = ONSTACK_THREAD_UNARMED;
  uint64_t cookie = onstack_thread_cookie(record, slot->generation);
  clock_forget_ticks(record);
  if (slot->ticker) {
    onstack_publish(&record->timer, ONSTACK_THREAD_BY_TICKER);
    onstack_add_relaxed(&slot->counters.threads_seen, (uint64_t)1);
    return;
  }
  bool quota = clock_take_quota();
  int result = quota ? clock_create(clock_of(slot, tid), slot->signal, tid, cookie, &timer) : -EAGAIN;
  if (result < 0) {
    if (quota) onstack_sub_relaxed(&onstack_timers_held, 1u);
    /* EINVAL: the thread has ended since the scan met it. */
    if (result != -EINVAL) onstack_add_relaxed(&slot->counters.threads_unarmed, (uint64_t)1);
    onstack_publish(&record->timer, ONSTACK_THREAD_UNARMED);
    return;
  }
  const uint64_t first = onstack_clock_random(slot, record, tid);
  if (clock_set(clock_of(slot, tid), slot->period_ns, record, timer, first) < 0) {
    /* ESRCH: the thread has ended; EINVAL: stop has deleted it under us. Disarm deletes it once in both cases. */
    clock_forget_ticks(record);
    onstack_clock_disarm(record);
    return;
  }
  onstack_add_relaxed(&slot->counters.threads_seen, (uint64_t)1);
}

ONSTACK_HANDLER void onstack_clock_disarm(onstack_thread *record) {
  int32_t timer = onstack_exchange(&record->timer, ONSTACK_THREAD_UNARMED);
  if (timer >= 0) clock_delete(timer);
}

ONSTACK_HANDLER_APART bool onstack_clock_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  int32_t timer = onstack_load_relaxed(&record->timer);
  if (timer < 0 || onstack_add_relaxed(&record->unanswered, (uint8_t)1) + 1u < CLOCK_DOUBT) return false;
  onstack_store_relaxed(&record->unanswered, (uint8_t)0);
  struct onstack_kernel_itimerspec spec;
  if (onstack_sys_timer_gettime(timer, &spec) < 0) return false;
  /* An armed timer of a living thread always has time left; one whose thread is gone reads zero. */
  if (spec.value.seconds != 0 || spec.value.nanoseconds != 0) return false;
  onstack_clock_disarm(record);
  onstack_clock_arm(slot, record, tid);
  return true;
}

/* A filter may let timers be made but not set, or not deleted. */
int onstack_clock_try(int32_t clock, int32_t signal, uint32_t tid) {
  const struct onstack_kernel_itimerspec never = {{0, 0}, {0, 0}};
  int32_t timer = -1;
  int result = clock_create(clock, signal, tid, 0, &timer);
  if (result < 0) return result;
  result = onstack_sys_timer_settime(timer, 0, &never);
  int deleted = onstack_sys_timer_delete(timer);
  return result < 0 ? result : deleted;
}

/* Not counted against the quota: there are at most ONSTACK_MAX_SESSIONS of them, and without one a session is blind. */
int onstack_clock_create_process(onstack_process_clock *clock) {
  int32_t timer = -1;
  const uint64_t cookie = onstack_thread_cookie(clock->record, clock->generation);
  clock_forget_ticks(clock->record); /* of who had it before: a start may end before this one is set */
  const int result = clock_create(CLOCK_PROCESS_CPUTIME_ID, clock->signal, 0, cookie, &timer);
  onstack_publish(&clock->record->timer, result < 0 ? ONSTACK_THREAD_UNARMED : timer);
  return result;
}

int onstack_clock_set_process(onstack_process_clock *clock, uint64_t first) {
  clock_forget_ticks(clock->record);
  return clock_set(CLOCK_PROCESS_CPUTIME_ID, clock->period_ns, clock->record, onstack_load_relaxed(&clock->record->timer),
                   first);
}

int32_t onstack_clock_settle_process(onstack_process_clock *clock) {
  return clock_settle(CLOCK_PROCESS_CPUTIME_ID, clock->period_ns, clock->record);
}

static ONSTACK_HANDLER void clock_move_process(onstack_process_clock *clock, uint64_t period_ns, uint64_t first) {
  const int32_t timer = onstack_load_relaxed(&clock->record->timer);
  uint64_t now;
  if (timer < 0 || !clock_read(CLOCK_PROCESS_CPUTIME_ID, &now)) return;
  struct onstack_kernel_itimerspec spec = {clock_timespec(period_ns), clock_timespec(now + first)};
  clock_forget_ticks(clock->record);
  onstack_store_relaxed(&clock->record->first_us, (uint32_t)((now + first) / 1000u) | 1u);
  onstack_sys_timer_settime(timer, TIMER_ABSTIME, &spec); /* stop waits for us before it deletes the timer */
}

/*
 * Both expire at a tick of the kernel, and at the same one whenever they are nearer to each other than two of these are: with
 * one thread at work, always or never. So the process's next tick comes halfway between two of the thread's. When it has gone
 * astray, the thread that it was meant for is not known: another phase, until one is found that meets a thread at work. In half
 * a period at the earliest and one and a half at the latest; what samples weigh does not depend on when it comes (entry.c,
 * entry_unaccounted). With rates near the kernel's, or several threads at work, they meet all the same.
 */
ONSTACK_HANDLER_APART void onstack_clock_keep_apart(onstack_process_clock *clock, int32_t timer, bool ended_call) {
  const uint64_t period_ns = onstack_load_relaxed(&clock->period_ns);
  struct onstack_kernel_itimerspec spec;
  if (period_ns == 0) return;
  if (ended_call) {
    clock_move_process(clock, period_ns,
                       period_ns / 2 + clock_random(clock->record, (uint32_t)timer, clock->generation, period_ns));
    return;
  }
  if (onstack_sys_timer_gettime(timer, &spec) < 0) return;
  const uint64_t left = ((uint64_t)spec.value.seconds * 1000000000u + (uint64_t)spec.value.nanoseconds) % period_ns;
  if (left >= period_ns / 4 && left < period_ns - period_ns / 4) return; /* they are */
  const uint64_t first = (left + period_ns / 2) % period_ns;
  clock_move_process(clock, period_ns, first < period_ns / 2 ? first + period_ns : first);
}
