/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static atomic_int foreign_quit;
static pthread_t foreign_thread;

static int64_t native_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Calls with arguments, so that the stack is more than one frame. */
__attribute__((noinline)) static uint64_t native_step(uint64_t x, int rounds) {
  for (int i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

void matrix_load_native(int microseconds) {
  volatile uint64_t sink = 1;
  int64_t end = native_cpu_ns() + (int64_t)microseconds * 1000;
  while (native_cpu_ns() < end) sink = native_step(sink, 20000);
}

static void *foreign_main(void *unused) {
  while (!atomic_load_explicit(&foreign_quit, memory_order_relaxed)) matrix_load_native(500);
  return unused;
}

int matrix_load_foreign_start(void) {
  foreign_quit = 0;
  return pthread_create(&foreign_thread, NULL, foreign_main, NULL);
}

void matrix_load_foreign_stop(void) {
  foreign_quit = 1;
  pthread_join(foreign_thread, NULL);
}
