/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pprof-rs, through the functions of pprof-rs/src/lib.rs. Its unwinder is chosen when that is compiled. */
#include "bench.h"

typedef struct pprof_rs_counts {
  uint64_t samples, frames, period_ns;
} pprof_rs_counts;

const char *bench_pprof_rs_start(uint32_t hz);
const char *bench_pprof_rs_stop(pprof_rs_counts *counts);
/* The stacks of the last stop that counted. */
void bench_pprof_rs_each_stack(bench_visit visit, void *data);

static const char *start(const bench_options *options, const bench_needs *needs) {
  (void)needs;
  return bench_pprof_rs_start(options->hz);
}

static const char *stop(bench_counts *counts) {
  pprof_rs_counts raw = {0};
  const char *why = bench_pprof_rs_stop(counts ? &raw : NULL);
  if (counts)
    *counts =
        (bench_counts){.samples = raw.samples, .frames = raw.frames, .time_ns = raw.samples * raw.period_ns, .dropped = -1};
  return why;
}

const bench_subject bench_subject_linked = {
    .name = "pprof-rs", .start = start, .stop = stop, .each_stack = bench_pprof_rs_each_stack};
