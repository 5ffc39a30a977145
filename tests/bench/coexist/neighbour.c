/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The matrix's C program with Go linked in (tests/matrix/host/archive.c), with any subject of the benchmark in onstack's
 * place. PROGRAM VARIANT MIX STEP...
 */
#include "bench.h"
#include "driver.h"
#include "go_calls.h"

#include "libmatrixgo.h"

static const bench_needs neighbour_needs;
static bench_options neighbour_options = {.hz = 199};
static double neighbour_sampled_ms;

int matrix_ours_start(void) {
  const char *why = bench_subject_linked.start(&neighbour_options, &neighbour_needs);
  if (why) fprintf(stderr, "%s does not start: %s\n", bench_subject_linked.name, why);
  return why ? -1 : 0;
}

int matrix_ours_stop(void) {
  bench_counts counts = {0};
  const char *why = bench_subject_linked.stop(&counts);
  if (why) fprintf(stderr, "%s does not stop: %s\n", bench_subject_linked.name, why);
  neighbour_sampled_ms = (double)counts.time_ns / 1e6;
  return why ? -1 : 0;
}

int matrix_ours_churn(long times) {
  for (long i = 0; i < times; i++)
    if (matrix_ours_start() != 0 || matrix_ours_stop() != 0) return -1;
  return 0;
}

void matrix_ours_describe(FILE *out) { fprintf(out, ",\"sampled_ms\":%.3f", neighbour_sampled_ms); }

/* The mix that needs it is not run here. */
void matrix_load_rust(void) {}

int main(int argc, char **argv) {
  const go_calls calls = {matrixGoProfileStart, matrixGoProfileStop, matrixGoExternal, matrixGoLoadStart,
                          matrixGoLoadStop,     matrixGoHealth,      matrixGoSpin};
  if (argc < 3) {
    fprintf(stderr, "usage: %s VARIANT MIX STEP...\n", argv[0]);
    return BENCH_EXIT_USAGE;
  }
  neighbour_options.variant = argv[1];
  if (bench_subject_linked.prepare) bench_subject_linked.prepare(argv, &neighbour_options);
  argv[1] = argv[0];
  return matrix_go_main(argc - 1, argv + 1, &calls);
}
