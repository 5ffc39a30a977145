/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * No profiler: the known quantity that shows what the benchmark itself measures. An ITIMER_PROF tick whose handler only
 * counts ("counter"), or spins for a microsecond by the clock ("spin"), which the table must then show.
 */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "bench.h"

#define SPIN_NS 1000

static volatile uint64_t ticks;
static uint64_t period_ns;
static struct sigaction found;

static void count_only(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
}

static void spin(int signal, siginfo_t *info, void *context) {
  uint64_t end = bench_now_ns() + SPIN_NS;
  count_only(signal, info, context);
  while (bench_now_ns() < end) continue;
}

static int set_timer(uint64_t ns) {
  struct timeval every = {.tv_sec = (time_t)(ns / 1000000000u), .tv_usec = (suseconds_t)(ns % 1000000000u / 1000)};
  struct itimerval timer = {.it_interval = every, .it_value = every};
  return setitimer(ITIMER_PROF, &timer, NULL);
}

static const char *start(const bench_options *options, const bench_needs *needs) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
  (void)needs;
  action.sa_sigaction = strcmp(options->variant, "spin") == 0 ? spin : count_only;
  ticks = 0;
  period_ns = 1000000000u / options->hz;
  if (sigaction(SIGPROF, &action, &found) < 0) return "the handler cannot be installed";
  return set_timer(period_ns) < 0 ? "setitimer failed" : NULL;
}

static const char *stop(bench_counts *counts) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  set_timer(0);
  sigaction(SIGPROF, &ignore, NULL); /* discards a pending tick, which would be deadly under SIG_DFL */
  sigaction(SIGPROF, &found, NULL);
  if (counts) *counts = (bench_counts){.samples = ticks, .frames = ticks, .time_ns = ticks * period_ns, .dropped = -1};
  return NULL;
}

const bench_subject bench_subject_linked = {.name = "reference", .start = start, .stop = stop};
