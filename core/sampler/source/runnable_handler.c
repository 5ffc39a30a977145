/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/runnable.h"

#include "sampler/session/record.h"

ONSTACK_HANDLER bool onstack_runnable_take(onstack_slot *slot, uint64_t index, uint64_t ns) {
  uint64_t held_ns = onstack_load_relaxed(&slot->runnable_ns[index]);
  while (held_ns >= ns)
    if (onstack_cas(&slot->runnable_ns[index], &held_ns, held_ns - ns)) return true;
  return false;
}

static ONSTACK_HANDLER uint32_t runnable_periods(onstack_slot *slot, const onstack_thread *thread) {
  const uint64_t index = (uint64_t)(thread - slot->threads.records);
  if (index >= ONSTACK_THREAD_RECORDS) return 0;
  const uint64_t periods = onstack_load_relaxed(&slot->runnable_ns[index]) / slot->period_ns;
  if (periods == 0 || !onstack_runnable_take(slot, index, periods * slot->period_ns)) return 0;
  return periods < UINT32_MAX ? (uint32_t)periods : UINT32_MAX;
}

ONSTACK_HANDLER_APART void onstack_runnable_record(onstack_slot *slot, onstack_thread *thread, ucontext_t *context) {
  const uint32_t weight = runnable_periods(slot, thread);
  if (weight == 0) return;
  onstack_add_relaxed(&slot->counters.ticks, (uint64_t)weight);
  onstack_record_tick(slot, thread, onstack_thread_tid(&slot->threads, thread), weight, context, true);
}
