/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

static uint64_t read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t bench_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

uint64_t bench_process_cpu_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

/* To an absolute time: ticks of a subject without SA_RESTART or with an itimer may interrupt the sleep. */
void bench_sleep_ns(uint64_t ns) {
  uint64_t end = bench_now_ns() + ns;
  struct timespec until = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

void bench_emit(const char *metric, const char *unit, double value) {
  printf("{\"metric\": \"%s\", \"unit\": \"%s\", \"value\": %.6g}\n", metric, unit, value);
  if (fflush(stdout) != 0) exit(BENCH_EXIT_FAILED);
}

void bench_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(BENCH_EXIT_FAILED);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
  if (count == 0) return 0;
  qsort(values, count, sizeof *values, by_value);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_quantile(double *values, size_t count, double share) {
  if (count == 0) return 0;
  qsort(values, count, sizeof *values, by_value);
  return values[(size_t)(share * (double)(count - 1))];
}
