/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What clocks have in common that find threads by lists alone. */
#include "sampler/source/clock.h"
#include "sampler/threads/task_list.h"

uint64_t onstack_clock_scan_all(uint64_t period_ns) {
  (void)period_ns;
  return 0;
}

/* No process tick stands in for timers that the quota leaves no room for: the session would be silent. */
int onstack_clock_start_listed(onstack_slot *slot, int listed) {
  const onstack_counters *counters = &slot->counters;
  if (listed > 0) return 0;
  if (onstack_task_list_is_foreign()) return ONSTACK_E_CLOCK; /* each timer was refused, as for a thread that has ended */
  const bool silent =
      onstack_load_relaxed(&counters->threads_seen) == 0 && onstack_load_relaxed(&counters->threads_unarmed) > 0;
  return listed == 0 && silent ? ONSTACK_E_CLOCK : listed;
}
