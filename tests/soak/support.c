/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "soak.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint32_t soak_random(unsigned *seed, uint32_t below) {
  uint32_t wide = (uint32_t)rand_r(seed) << 16 ^ (uint32_t)rand_r(seed);
  return wide % below;
}

static double soak_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double soak_now(void) { return soak_clock(CLOCK_MONOTONIC); }

void soak_sleep(double seconds) {
  double end = soak_now() + seconds;
  for (double left = seconds; left > 0; left = end - soak_now()) {
    struct timespec wait = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&wait, NULL);
  }
}

void soak_burn(double cpu_seconds) {
  double end = soak_clock(CLOCK_THREAD_CPUTIME_ID) + cpu_seconds;
  do
    for (volatile int i = 0; i < 20000; i++) continue;
  while (soak_clock(CLOCK_THREAD_CPUTIME_ID) < end);
}

void soak_count(uint64_t *counter, uint64_t more) { __atomic_fetch_add(counter, more, __ATOMIC_RELAXED); }
void soak_beat(soak_worker *worker) { soak_count(&worker->beats, 1); }

void soak_most(uint64_t *most, uint64_t value) {
  uint64_t seen = __atomic_load_n(most, __ATOMIC_RELAXED);
  while (seen < value && !__atomic_compare_exchange_n(most, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
}
