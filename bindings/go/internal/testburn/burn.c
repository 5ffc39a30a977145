/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

#define _GNU_SOURCE
#include "burn.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static volatile uint64_t testburn_sink;

static int64_t testburn_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * Long enough between two looks at the clock that hardly a sample falls into them. The compiler leaves the frame record
 * out of leaf functions even with -fno-omit-frame-pointer, and a frame-pointer walk then misses the caller; asking for
 * the frame's address makes it keep the record.
 */
__attribute__((noinline)) void testburn_leaf(void) {
  __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
  uint64_t x = testburn_sink;
  for (int i = 0; i < 200000; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
  }
  testburn_sink = x;
}

__attribute__((noinline)) void testburn_caller(int milliseconds) {
  int64_t end = testburn_cpu_ns() + (int64_t)milliseconds * 1000000;
  while (testburn_cpu_ns() < end) {
    testburn_leaf();
  }
}

struct testburn_job {
  const char *name;
  int milliseconds;
};

static void *testburn_thread(void *data) {
  const struct testburn_job *job = data;
  pthread_setname_np(pthread_self(), job->name);
  testburn_caller(job->milliseconds);
  return NULL;
}

int testburn_on_thread(const char *name, int milliseconds) {
  struct testburn_job job = {name, milliseconds};
  pthread_t thread;
  int error = pthread_create(&thread, NULL, testburn_thread, &job);
  return error ? error : pthread_join(thread, NULL);
}
