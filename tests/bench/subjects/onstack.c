/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack as a program uses it: a session whose sink aggregates into a profile. The variant is the unwinder, with
 * "+interpreters" behind it or not; compiled with BENCH_ADAPTER it is the adapter of nongnu libunwind.
 */
#include <onstack/interpreters.h>
#include <onstack/onstack.h>
#include <onstack/profile.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#ifdef BENCH_ADAPTER
#include "onstack_libunwind.h"
#endif

#define MAX_TIMES (1u << 20)
#define LOG_WORDS (1u << 22)

static struct {
  onstack_session *session;
  onstack_profile *profile;
  uint64_t samples, frames, time_ns;
  uint64_t *times; /* NULL: not asked for */
  size_t time_count;
  uint64_t *log; /* of records: samples, count, frames; NULL: not asked for */
  size_t log_used;
} run;

static void keep_stack(const onstack_sample *sample) {
  if (run.log_used + 2 + sample->frame_count > LOG_WORDS) bench_fail("more stacks than the log holds");
  uint64_t *record = run.log + run.log_used;
  record[0] = 1;
  record[1] = sample->frame_count;
  memcpy(record + 2, sample->frames, sample->frame_count * sizeof *sample->frames);
  run.log_used += 2 + sample->frame_count;
}

static int sink(void *data, const onstack_sample *sample) {
  (void)data;
  run.samples++;
  run.frames += sample->frame_count;
  run.time_ns += sample->value;
  if (run.times && run.time_count < MAX_TIMES) run.times[run.time_count++] = sample->time_ns;
  if (run.log) keep_stack(sample);
  return onstack_profile_sink(run.profile, sample);
}

static const char *start(const bench_options *options, const bench_needs *needs) {
  onstack_options settings;
  int error = onstack_options_init(&settings, sizeof settings);
  if (error) return onstack_strerror(error);
  settings.frequency = options->hz;
#ifdef BENCH_ADAPTER
  settings.custom_unwinder = onstack_libunwind();
#else
  settings.unwinder = options->variant;
  if (strcmp(options->variant, "rules+interpreters") == 0) {
    settings.unwinder = "rules";
    if ((error = onstack_interpreters_register()) < 0) return onstack_strerror(error);
    settings.interpreters = ONSTACK_ON;
  }
#endif
  settings.buffer_bytes = needs->buffer_bytes;
  settings.sink = sink;
  run.samples = run.frames = run.time_ns = run.time_count = run.log_used = 0;
  if (needs->sample_times && !run.times) run.times = malloc(MAX_TIMES * sizeof *run.times);
  if (needs->stacks && !run.log) run.log = malloc(LOG_WORDS * sizeof *run.log);

  error = onstack_profile_new(NULL, &run.profile);
  if (error) return onstack_strerror(error);
  error = onstack_session_start(&settings, &run.session);
  if (error) onstack_profile_free(run.profile);
  return error ? onstack_strerror(error) : NULL;
}

static int64_t dropped(void) {
  onstack_stats stats = {.size = sizeof stats};
  if (onstack_session_stats(run.session, &stats) < 0) return -1;
  return (int64_t)(stats.dropped_ring_full + stats.dropped_no_stack + stats.dropped_unwinder + stats.dropped_stopping +
                   stats.dropped_sink);
}

static const char *stop(bench_counts *counts) {
  int error = onstack_session_stop(run.session);
  if (error) return onstack_strerror(error);
  if (counts)
    *counts = (bench_counts){.samples = run.samples, .frames = run.frames, .time_ns = run.time_ns, .dropped = dropped()};
  error = onstack_session_free(run.session);
  onstack_profile_free(run.profile);
  return error ? onstack_strerror(error) : NULL;
}

static const uint64_t *sample_times(size_t *count) {
  *count = run.time_count;
  return run.times;
}

static void each_stack(bench_visit visit, void *data) {
  for (size_t at = 0; at < run.log_used; at += 2 + run.log[at + 1])
    visit(data, run.log + at + 2, run.log[at + 1], run.log[at]);
}

const bench_subject bench_subject_linked = {
    .name = "onstack", .start = start, .stop = stop, .sample_times = sample_times, .each_stack = each_stack};
