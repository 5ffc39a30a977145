/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a session gives a computing thread at such rates: on the CPU clock, and on the wall clock for this thread alone. */
#include "clocks.h"

#include <onstack/onstack.h>

#include <stdio.h>
#include <time.h>

static int is_it(void *wanted, int32_t thread, const char *name) {
  (void)name;
  return thread == *(const int32_t *)wanted;
}

static int row(onstack_clock clock, uint32_t frequency) {
  int32_t self = thread_id();
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.frequency = frequency;
  options.clock = clock;
  if (clock == ONSTACK_CLOCK_WALL_SIGNAL) {
    options.thread_filter = is_it;
    options.thread_filter_data = &self;
  }
  int result = onstack_session_start(&options, &session);
  if (result < 0) return fprintf(stderr, "%s\n", onstack_strerror(result)), 1;
  double real = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  burn_user(1);
  real = seconds_of(CLOCK_MONOTONIC) - real;
  cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stop(session);
  onstack_session_stats(session, &stats);
  onstack_session_free(session);
  printf("| %s | %u | %.0f | %.2f of %.2f CPU, %.2f real |\n", stats.clock, frequency, (double)stats.samples / cpu,
         (double)(stats.ticks * stats.period) * 1e-9, cpu, real);
  return 0;
}

int main(void) {
  static const uint32_t frequencies[] = {1000, 4000, 10000};
  int failed = 0;
  puts("| clock | Hz | samples a CPU second | seconds by weight |\n| --- | --- | --- | --- |");
  for (int i = 0; i < 3; i++) failed |= row(ONSTACK_CLOCK_CPU, frequencies[i]);
  for (int i = 0; i < 3; i++) failed |= row(ONSTACK_CLOCK_WALL_SIGNAL, frequencies[i]);
  return failed;
}
