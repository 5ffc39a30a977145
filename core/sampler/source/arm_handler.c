/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/arm.h"

#include "platform/sys.h"
#include "sampler/session/record.h"

#include <errno.h>
#include <time.h>

ONSTACK_INTERNAL_DEFINE uint32_t onstack_timers_held;
ONSTACK_INTERNAL_DEFINE uint32_t onstack_timers_allowed;
ONSTACK_INTERNAL_DEFINE uint32_t onstack_timers_refused;

/* splitmix64 over what differs between calls. */
ONSTACK_HANDLER uint64_t onstack_arm_random(const onstack_thread *record, uint32_t tid, uint32_t generation,
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

static ONSTACK_HANDLER bool arm_take_quota(void) {
  if (onstack_add_relaxed(&onstack_timers_held, 1u) < onstack_load_relaxed(&onstack_timers_allowed)) return true;
  onstack_sub_relaxed(&onstack_timers_held, 1u);
  return false;
}

static ONSTACK_HANDLER int arm_create(const onstack_slot *slot, onstack_thread *record, uint32_t tid, int32_t clock) {
  if (!arm_take_quota()) return -EAGAIN;
  const uint64_t cookie = onstack_thread_cookie(record, slot->generation);
  const int result = onstack_timer_create(&record->timer, clock, slot->signal, tid, cookie);
  if (result < 0) onstack_sub_relaxed(&onstack_timers_held, 1u);
  return result;
}

ONSTACK_HANDLER_APART void onstack_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid, int32_t clock) {
  onstack_timer *timer = &record->timer;
  int32_t id;
  onstack_timer_move(timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_ARMING);
  onstack_timer_reset(timer);
  int result = arm_create(slot, record, tid, clock);
  if (result < 0) {
    /* EINVAL: the thread has ended since the scan met it. */
    if (result != -EINVAL) {
      onstack_add_relaxed(&slot->counters.threads_unarmed, (uint64_t)1);
      onstack_store_relaxed(&onstack_timers_refused, 1u);
    }
    onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_REFUSED);
    return;
  }
  const uint64_t first_ns = onstack_arm_random(record, tid, slot->generation, slot->period);
  if (onstack_timer_set(timer, clock, first_ns, slot->period) < 0) {
    /* ESRCH: the thread has ended; EINVAL: stop has deleted it under us. */
    onstack_timer_reset(timer);
    if (onstack_timer_take(timer, ONSTACK_TIMER_REFUSED, &id)) onstack_arm_remove(id);
    return;
  }
  onstack_add_relaxed(&slot->counters.threads_seen, (uint64_t)1);
}

ONSTACK_HANDLER void onstack_arm_remove(int32_t id) {
  onstack_timer_delete(id);
  onstack_sub_relaxed(&onstack_timers_held, 1u);
}

ONSTACK_HANDLER bool onstack_runnable_take(onstack_slot *slot, uint64_t index, uint64_t ns) {
  uint64_t held_ns = onstack_load_relaxed(&slot->runnable_ns[index]);
  while (held_ns >= ns)
    if (onstack_cas(&slot->runnable_ns[index], &held_ns, held_ns - ns)) return true;
  return false;
}

static ONSTACK_HANDLER uint32_t runnable_periods(onstack_slot *slot, const onstack_thread *thread) {
  const uint64_t index = (uint64_t)(thread - slot->threads.records);
  if (index >= ONSTACK_THREAD_RECORDS) return 0;
  const uint64_t periods = onstack_load_relaxed(&slot->runnable_ns[index]) / slot->period;
  if (periods == 0 || !onstack_runnable_take(slot, index, periods * slot->period)) return 0;
  return periods < UINT32_MAX ? (uint32_t)periods : UINT32_MAX;
}

ONSTACK_HANDLER_APART void onstack_runnable_record(onstack_slot *slot, onstack_thread *thread, ucontext_t *context) {
  const uint32_t weight = runnable_periods(slot, thread);
  if (weight == 0) return;
  onstack_add_relaxed(&slot->counters.ticks, (uint64_t)weight);
  onstack_record_tick(slot, thread, onstack_thread_tid(&slot->threads, thread), weight, context, true);
}
