/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gperftools' CPU profiler with its default process-wide timer. The variant is its stack trace method ("libunwind",
 * "generic_fp", ...). What it collected is read back from the file that it writes.
 */
#include <gperftools/profiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define MAX_FRAMES 1024

static char path[4096];
static int keeps_file; /* until each_stack has read it */

/* The rate and the method are read in static constructors: set them, and begin again when they were not there. */
static void prepare(char **argv, const bench_options *options) {
  static const char rate[] = "CPUPROFILE_FREQUENCY", method[] = "TCMALLOC_STACKTRACE_METHOD";
  char hz[16];
  snprintf(hz, sizeof hz, "%u", options->hz);
  const char *has_rate = getenv(rate), *has_method = getenv(method);
  if (has_rate && has_method && strcmp(has_rate, hz) == 0 && strcmp(has_method, options->variant) == 0) return;
  setenv(rate, hz, 1);
  setenv(method, options->variant, 1);
  unsetenv("CPUPROFILE");
  unsetenv("CPUPROFILE_REALTIME");
  unsetenv("CPUPROFILE_PER_THREAD_TIMERS");
  execv("/proc/self/exe", argv);
  bench_fail("the program cannot be started again with gperftools' settings");
}

static const char *start(const bench_options *options, const bench_needs *needs) {
  (void)options;
  keeps_file = needs->stacks;
  const char *directory = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/onstack-bench-XXXXXX", directory ? directory : "/tmp");
  int file = mkstemp(path);
  if (file < 0) return "no temporary file can be made (see TMPDIR)";
  close(file);
  return ProfilerStart(path) ? NULL : "ProfilerStart refused";
}

/*
 * The file is a sequence of machine words: a header 0, 3, 0, period in us, 0; then a record for each stack: count,
 * depth, addresses; and a last record 0, 1, 0.
 */
static const char *read_profile(FILE *file, bench_counts *counts, bench_visit visit, void *data) {
  uint64_t header[5], record[2], frames[MAX_FRAMES];
  if (fread(header, sizeof *header, 5, file) != 5 || header[1] != 3) return "the profile has no header";
  *counts = (bench_counts){.dropped = -1};
  while (fread(record, sizeof *record, 2, file) == 2 && record[0] != 0) {
    counts->samples += record[0];
    counts->frames += record[0] * record[1];
    counts->time_ns += record[0] * header[3] * 1000;
    if (record[1] > MAX_FRAMES || fread(frames, sizeof *frames, record[1], file) != record[1])
      return "the profile is cut off";
    if (visit) visit(data, frames, record[1], record[0]);
  }
  return NULL;
}

static const char *read_file(bench_counts *counts, bench_visit visit, void *data) {
  FILE *file = fopen(path, "rb");
  if (!file) return "the profile cannot be opened";
  const char *why = read_profile(file, counts, visit, data);
  fclose(file);
  return why;
}

static const char *stop(bench_counts *counts) {
  ProfilerStop();
  const char *why = counts ? read_file(counts, NULL, NULL) : NULL;
  if (!keeps_file) unlink(path);
  return why;
}

static void each_stack(bench_visit visit, void *data) {
  bench_counts counts;
  const char *why = read_file(&counts, visit, data);
  unlink(path);
  if (why) bench_fail("%s", why);
}

const bench_subject bench_subject_linked = {
    .name = "gperftools", .prepare = prepare, .start = start, .stop = stop, .each_stack = each_stack};
