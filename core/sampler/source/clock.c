/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What clocks have in common: those of time a rate, and others that they find threads by lists alone. */
#include "sampler/source/clock.h"

#include "sampler/threads/task.h"

#define RATE_OVERRUN_NS 250000000u /* how much one sample may stand for */

#define RATE_TEXT(number) RATE_TEXT_OF(number)
#define RATE_TEXT_OF(number) #number

int onstack_clock_accept_rate(const onstack_options *options, onstack_settings *settings, const char **fault) {
  *fault = "heap_interval: needs the heap clock";
  if (options->heap_interval != 0) return ONSTACK_E_OPTIONS;
  *fault = "heap_objects: needs the heap clock";
  if (options->heap_objects != 0) return ONSTACK_E_OPTIONS;
  *fault = "frequency: give 1 to " RATE_TEXT(ONSTACK_MAX_FREQUENCY) " Hz";
  if (options->frequency > ONSTACK_MAX_FREQUENCY) return ONSTACK_E_FREQUENCY;
  *fault = NULL;
  settings->period_ns = 1000000000u / (options->frequency ? options->frequency : ONSTACK_DEFAULT_FREQUENCY);
  settings->period = settings->period_ns;
  settings->weight_max = (uint32_t)(RATE_OVERRUN_NS / settings->period_ns);
  if (settings->weight_max == 0) settings->weight_max = 1;
  settings->heap_objects = 0;
  return 0;
}

/* What clocks have in common that find threads by lists alone. */

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
