/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "burn.h"

#include "bench.h"

/* `noipa` keeps the compiler from inlining, cloning or unrolling the recursion: the depth must be what it says. */
#define OPAQUE __attribute__((noipa))

#define ROUNDS_A_CHUNK 10000

static OPAQUE uint64_t chunk(uint64_t seed) {
  for (int i = 0; i < ROUNDS_A_CHUNK; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    seed ^= seed >> 29;
  }
  return seed;
}

OPAQUE void burn_until(uint32_t depth, burn_done done, void *data) {
  if (depth > 1) {
    burn_until(depth - 1, done, data);
  } else {
    uint64_t seed = (uintptr_t)data;
    while (!done(data)) seed = chunk(seed);
  }
  /* Something after the call: else it would become a jump and the frame would be gone. */
  __asm__ volatile("" ::: "memory");
}

static int cpu_reached(void *data) { return bench_thread_cpu_ns() >= *(uint64_t *)data; }

void burn_cpu_ns(uint64_t ns) {
  uint64_t end = bench_thread_cpu_ns() + ns;
  burn_until(1, cpu_reached, &end);
}
