/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

#define _GNU_SOURCE
#include "burn.h"

#include <errno.h>
#include <poll.h>
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

/* Functions as compilers of C++ and Rust name them; two of Rust's differ in nothing but the hash. */
#define TESTBURN_NAMED(function, symbol)                                                                                    \
  __attribute__((noinline)) void function(int milliseconds) __asm__(symbol);                                                \
  void function(int milliseconds) {                                                                                         \
    testburn_caller(milliseconds);                                                                                          \
    testburn_sink++;                                                                                                        \
  }
TESTBURN_NAMED(testburn_cxx, "_ZN8testburn3cxxEiPKc")
TESTBURN_NAMED(testburn_rust, "_ZN8testburn4rust17h0123456789abcdefE")
TESTBURN_NAMED(testburn_rust_again, "_ZN8testburn4rust17hfedcba9876543210E")
TESTBURN_NAMED(testburn_rust_v0, "_RNvC8testburn2v0")

void testburn_mangled(int milliseconds) {
  testburn_cxx(milliseconds / 4);
  testburn_rust(milliseconds / 4);
  testburn_rust_again(milliseconds / 4);
  testburn_rust_v0(milliseconds / 4);
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

#define TESTBURN_POLLERS 8

static pthread_t testburn_pollers[TESTBURN_POLLERS];
static int testburn_polling, testburn_polls_end;
static long testburn_early, testburn_polls;

static void *testburn_poll(void *data) {
  (void)data;
  while (!__atomic_load_n(&testburn_polls_end, __ATOMIC_RELAXED)) {
    const int result = poll(NULL, 0, 5);
    __atomic_add_fetch(&testburn_polls, 1, __ATOMIC_RELAXED);
    if (result < 0 && errno == EINTR) __atomic_add_fetch(&testburn_early, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

int testburn_begin_polls(int threads) {
  testburn_early = testburn_polls = testburn_polls_end = testburn_polling = 0;
  for (; testburn_polling < threads && testburn_polling < TESTBURN_POLLERS; testburn_polling++)
    if (pthread_create(&testburn_pollers[testburn_polling], NULL, testburn_poll, NULL) != 0) return -1;
  return 0;
}

void testburn_end_polls(long *early, long *all) {
  __atomic_store_n(&testburn_polls_end, 1, __ATOMIC_RELAXED);
  while (testburn_polling > 0) pthread_join(testburn_pollers[--testburn_polling], NULL);
  *early = testburn_early;
  *all = testburn_polls;
}
