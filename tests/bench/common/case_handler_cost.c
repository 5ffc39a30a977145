/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Time inside the signal handler for each sample, on real ticks of the profiler's own timer. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "burn.h"
#include "case_handler.h"
#include "intercept.h"

#define FEW 20 /* ticks that a median needs at least */

void (*bench_burn_hook)(int (*over)(void *data), void *data);

typedef struct deadline {
  handler_time time;
  size_t max_ticks;
} deadline;

static int over(void *data) {
  deadline *d = data;
  const size_t ticks = intercept_count();
  return handler_is_over(&d->time, ticks) || ticks >= d->max_ticks;
}

handler_time handler_time_from_now(double seconds) {
  const uint64_t now = bench_now_ns(), wanted_ns = (uint64_t)(seconds * 1e9);
  return (handler_time){now + wanted_ns, now + wanted_ns + 20000000000u};
}

int handler_is_over(const handler_time *time, size_t ticks) {
  const uint64_t now = bench_now_ns();
  return now >= time->last_ns || (now >= time->end_ns && ticks >= (size_t)2 * FEW);
}

/* What one signal cost: the only call, or the median of the calls after the warm-up. */
static double tick_cost(const intercept_tick *tick, uint32_t repeats) {
  double calls[INTERCEPT_MAX_REPEATS];
  size_t count = 0;
  for (uint32_t i = repeats > 1 ? INTERCEPT_WARM_UP : 0; i < repeats; i++) calls[count++] = tick->call_ns[i];
  return bench_median(calls, count);
}

/*
 * Splits the ticks into those that left a sample and the rest (a profiler may have other work in its handler, as
 * onstack's search for new threads). Both lists are in order of time.
 */
static void split(const intercept_tick *ticks, size_t count, uint32_t repeats, double *sampled, size_t *sampled_count,
                  double *others, size_t *others_count) {
  size_t time_count = 0, next = 0;
  const uint64_t *times = NULL;
  if (bench_subject_linked.sample_times) times = bench_subject_linked.sample_times(&time_count);
  for (size_t i = 0; i < count; i++) {
    while (next < time_count && times[next] < ticks[i].begin_ns) next++;
    int left_sample = !times || (next < time_count && times[next] <= ticks[i].end_ns);
    double cost = tick_cost(&ticks[i], repeats);
    if (left_sample)
      sampled[(*sampled_count)++] = cost;
    else
      others[(*others_count)++] = cost;
  }
}

void handler_report(const bench_counts *counts, const intercept_tick *ticks, size_t count, uint32_t repeats,
                    const char *metric) {
  double *sampled = malloc((count + 1) * sizeof *sampled), *others = malloc((count + 1) * sizeof *others);
  size_t sampled_count = 0, others_count = 0;
  char name[64];
  if (!sampled || !others) bench_fail("no memory for %zu ticks", count);
  split(ticks, count, repeats, sampled, &sampled_count, others, &others_count);
  if (sampled_count < FEW) bench_fail("only %zu of %zu ticks left a sample; give more seconds", sampled_count, count);

  double empty = intercept_empty_call_ns();
  int64_t calls = (int64_t)(sampled_count * repeats), lost = calls - (int64_t)counts->samples;
  if (counts->dropped >= 0) lost = counts->dropped;
  bench_emit(metric, "ns", bench_median(sampled, sampled_count) - empty);
  snprintf(name, sizeof name, "%s-p90", metric);
  if (repeats == 1) bench_emit(name, "ns", bench_quantile(sampled, sampled_count, 0.9) - empty);
  if (repeats == 1 && others_count >= FEW) bench_emit("without-sample", "ns", bench_median(others, others_count) - empty);
  snprintf(name, sizeof name, "%s-frames", metric);
  bench_emit(name, "frames", (double)counts->frames / (double)counts->samples);
  snprintf(name, sizeof name, "%s-lost", metric);
  bench_emit(name, "% of calls", lost > 0 ? 100.0 * (double)lost / (double)calls : 0);
  free(sampled);
  free(others);
}

int bench_case_handler_cost(const bench_options *options) {
  int warm = strcmp(options->mode, "warm") == 0;
  if (!warm && strcmp(options->mode, "tick") != 0) bench_fail("mode is tick or warm, not %s", options->mode);
  uint32_t repeats = warm ? INTERCEPT_MAX_REPEATS : 1;
  size_t max_ticks = (size_t)(options->seconds * 4 * options->hz) + FEW;
  /* 50 samples at once: a buffer of usual size would fill before it is drained, and a refused sample costs less. */
  bench_needs needs = {.sample_times = 1, .buffer_bytes = warm ? 16u << 20 : 0};

  bench_counts counts = {0};
  size_t count;
  bench_start(options, &needs);
  intercept_begin(SIGPROF, repeats, max_ticks);
  deadline end = {handler_time_from_now(options->seconds), max_ticks};
  if (bench_burn_hook)
    bench_burn_hook(over, &end);
  else
    burn_until(options->depth, over, &end);
  const intercept_tick *ticks = intercept_end(&count);
  bench_stop(&counts);
  if (counts.samples == 0) bench_fail("the profile is empty after %zu ticks", count);
  handler_report(&counts, ticks, count, repeats, options->mode);
  return 0;
}
