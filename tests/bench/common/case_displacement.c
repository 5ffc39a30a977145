/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How long somebody else's handler stands where the profiler's was, in a process that works. */
#include <signal.h>
#include <stdlib.h>

#include "bench.h"

#define BACK_OFF_NS 150000000u /* more than eight times a second is taken for somebody who insists, and waited out */
#define PATIENCE_NS 1000000000u

static void newer(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static int is_newer_on_top(void) {
  struct sigaction now;
  sigaction(SIGPROF, NULL, &now);
  return now.sa_sigaction == newer;
}

/* Busy: a process at rest is looked at less often. */
static void burn_until(uint64_t end_ns) {
  while (bench_now_ns() < end_ns) continue;
}

static double one_displacement(void) {
  struct sigaction action = {.sa_sigaction = newer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, found;
  sigaction(SIGPROF, &action, &found);
  const uint64_t begin = bench_now_ns();
  while (is_newer_on_top() && bench_now_ns() - begin < PATIENCE_NS) burn_until(bench_now_ns() + 20000);
  const uint64_t took = bench_now_ns() - begin;
  if (took >= PATIENCE_NS) bench_fail("the other handler stands for a second");
  sigaction(SIGPROF, &found, NULL); /* as its owner leaves: with what it had found */
  return (double)took / 1e6;
}

int bench_case_displacement(const bench_options *options) {
  bench_needs needs = {0};
  double *waits = calloc(options->repeats, sizeof *waits);
  if (!waits) bench_fail("no memory for %u repeats", options->repeats);
  bench_start(options, &needs);
  for (uint32_t i = 0; i < options->repeats; i++) {
    burn_until(bench_now_ns() + BACK_OFF_NS + i * 377000 % 10000000); /* anywhere between two looks */
    waits[i] = one_displacement();
  }
  bench_stop(NULL);
  bench_emit("median", "ms", bench_median(waits, options->repeats));
  bench_emit("p99", "ms", bench_quantile(waits, options->repeats, 0.99));
  bench_emit("longest", "ms", bench_quantile(waits, options->repeats, 1));
  free(waits);
  return 0;
}
