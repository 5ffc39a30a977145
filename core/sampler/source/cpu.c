/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CPU time, by a timer for each thread; where there are no timers, by the ticker. */
#include "sampler/source/arm.h"
#include "sampler/source/discovery.h"
#include "sampler/source/process_tick.h"

#include <errno.h>
#include <time.h>

#define RATE_OVERRUN_NS 250000000u /* how much one sample may stand for */

#define RATE_TEXT(number) RATE_TEXT_OF(number)
#define RATE_TEXT_OF(number) #number

int onstack_source_check_rate(const onstack_options *options, uint32_t usual, onstack_settings *settings,
                              const char **fault) {
  *fault = "heap_interval: needs the heap clock";
  if (options->heap_interval != 0) return ONSTACK_E_OPTIONS;
  *fault = "heap_objects: needs the heap clock";
  if (options->heap_objects != 0) return ONSTACK_E_OPTIONS;
  *fault = "frequency: give 1 to " RATE_TEXT(ONSTACK_MAX_FREQUENCY) " Hz";
  if (options->frequency > ONSTACK_MAX_FREQUENCY) return ONSTACK_E_FREQUENCY;
  *fault = NULL;
  settings->period = 1000000000u / (options->frequency ? options->frequency : usual);
  settings->weight_max = (uint32_t)(RATE_OVERRUN_NS / settings->period);
  if (settings->weight_max == 0) settings->weight_max = 1;
  return 0;
}

static int cpu_check(const onstack_options *options, onstack_settings *settings, const char **fault) {
  *fault = "thread_filter: needs a clock of real time";
  if (options->thread_filter) return ONSTACK_E_OPTIONS;
  return onstack_source_check_rate(options, ONSTACK_DEFAULT_FREQUENCY, settings, fault);
}

static void cpu_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
}

static bool cpu_read(uint32_t tid, uint64_t *ns) { return onstack_timer_read_clock(onstack_timer_cpu_clock(tid), ns); }

static const onstack_thread_timers cpu_timers = {.arm = cpu_arm, .remove = onstack_arm_remove, .read = cpu_read};

static int cpu_start(onstack_slot *slot, const onstack_settings *settings) {
  int result = onstack_timer_probe(CLOCK_PROCESS_CPUTIME_ID, slot->signal, 0);
  if (result < 0) return onstack_ticker_start(slot, settings, "cpu-ticker", true, result);
  result = onstack_discovery_by_process(slot);
  if (result < 0) return result == -ENOMEM ? result : ONSTACK_E_CLOCK;
  return onstack_discovery_start(slot, settings, &cpu_timers);
}

static bool cpu_tend(onstack_slot *slot, const onstack_source_round *round) {
  return onstack_discovery_tend(slot, round, 0);
}

static void cpu_fill(const onstack_slot *slot, onstack_stats *stats) {
  onstack_ticker_fill(slot, stats);
  stats->cpu_ns = onstack_load_relaxed(&slot->counters.cpu_ns);
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) onstack_process_used(slot, &stats->cpu_ns);
}

ONSTACK_INTERNAL_DEFINE const onstack_source onstack_source_cpu = {
    .name = "cpu",
    .number = ONSTACK_CLOCK_CPU,
    .kind = ONSTACK_KIND_CPU,
    .unit = ONSTACK_UNIT_NANOSECONDS,
    .check = cpu_check,
    .start = cpu_start,
    .tend = cpu_tend,
    .stop = onstack_ticker_stop,
    .fill = cpu_fill,
};
