/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "native.h"

#include "_cgo_export.h"

#include <stdint.h>
#include <time.h>

static volatile uint64_t native_sink;

static int64_t native_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Without a frame: its caller is in LR alone. */
__attribute__((noinline, noclone)) uint64_t native_leaf(uint64_t x) {
  for (int i = 0; i < 200000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

__attribute__((noinline, noclone)) int64_t native_middle(int64_t end) {
  int64_t rounds = 0;
  for (; native_cpu_ns() < end; rounds++) native_sink = native_leaf(native_sink);
  return rounds;
}

__attribute__((noinline, noclone)) void native_outer(int milliseconds) {
  native_sink += (uint64_t)native_middle(native_cpu_ns() + (int64_t)milliseconds * 1000000);
}

/* The frame's size and the registers that it saves differ from the others'. */
__attribute__((noinline, noclone)) uint64_t native_callback(int depth, int milliseconds) {
  volatile uint64_t words[37];
  for (int i = 0; i < 37; i++) words[i] = (uint64_t)i;
  goCallback(depth, milliseconds);
  return words[depth % 37];
}

__attribute__((noinline, noclone)) void native_bridge(int depth, int milliseconds) {
  native_sink += native_callback(depth, milliseconds);
}

__attribute__((noinline, noclone)) void native_nothing(void) { native_sink++; }
