/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a running profiler costs the whole program: the same work without and with it in turns, CPU time of all threads.
 * The work calls, reads and writes more memory than the innermost cache holds, as programs do.
 */
#include <stdlib.h>

#include "bench.h"
#include "chain.h"

#define WORDS (1u << 17) /* 1 MiB */
#define BLOCK_NS 100000000u
#define DEPTH 20

static uint64_t *words;

static uint64_t touch(uint64_t seed) {
  for (int i = 0; i < 64; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    words[(seed >> 33) % WORDS] += seed;
  }
  return seed;
}

static void work(uint32_t sweeps) {
  for (uint32_t i = 0; i < sweeps; i++)
    for (uint32_t first = 0; first + DEPTH <= CHAIN_FUNCTIONS; first += DEPTH) chain_framed.run(first, first + i);
}

static double block_ns(uint32_t sweeps) {
  uint64_t begin = bench_process_cpu_ns();
  work(sweeps);
  return (double)(bench_process_cpu_ns() - begin);
}

int bench_case_overhead(const bench_options *options) {
  bench_needs needs = {0};
  uint32_t repeats = 1 + (uint32_t)(options->seconds * 1e9 / (2.0 * BLOCK_NS));
  double *shares = calloc(repeats, sizeof *shares);
  words = calloc(WORDS, sizeof *words);
  if (!shares || !words) bench_fail("no memory for %u blocks", repeats);
  chain_framed.cut(DEPTH, touch);
  work(20);
  uint32_t sweeps = (uint32_t)(BLOCK_NS * 20.0 / block_ns(20)) + 1;

  double before = block_ns(sweeps);
  for (uint32_t i = 0; i < repeats; i++) {
    /* Off, on, off: the middle against the mean of its neighbours, so that a machine that slows down weighs on both. */
    bench_start(options, &needs);
    double with = block_ns(sweeps);
    bench_stop(NULL);
    double after = block_ns(sweeps);
    shares[i] = 100 * (with / ((before + after) / 2) - 1);
    before = after;
  }
  bench_emit("overhead", "% CPU time", bench_median(shares, repeats));
  free(shares);
  free(words);
  return 0;
}
