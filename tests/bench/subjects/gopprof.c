/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Go's own profiler under the cases in C, through functions that the Go program exports (go/gopprof.go). */
#include <signal.h>

#include "bench.h"

int goProfileStart(uint32_t hz);
int goProfileStop(uint64_t *samples, uint64_t *frames);

static uint64_t period_ns;

static const char *start(const bench_options *options, const bench_needs *needs) {
  (void)needs;
  period_ns = 1000000000u / options->hz;
  return goProfileStart(options->hz) == 0 ? NULL : "StartCPUProfile refused";
}

static const char *stop(bench_counts *counts) {
  uint64_t samples = 0, frames = 0;
  if (goProfileStop(&samples, &frames) != 0) return "the profile cannot be read";
  if (counts) *counts = (bench_counts){.samples = samples, .frames = frames, .time_ns = samples * period_ns, .dropped = -1};
  return NULL;
}

/* A thread that has a timer of its own is not sampled by the process's, whose ticks come beside and return at once. */
const bench_subject bench_subject_linked = {.name = "runtime/pprof", .start = start, .stop = stop, .tick_code = SI_TIMER};
