/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the first sample of a stack costs: each tick meets a call chain of its own, of functions that no sample has met
 * before (or not for the thousands of functions since). In mode "cold" the program reads more memory than the caches
 * hold between the calls and the tick, so that code, tables and the stack itself are out of them too.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "case_handler.h"
#include "chain.h"

#define MEMORY_BYTES (48u << 20) /* more than most last-level caches give one core; read in 2 to 4 ms */
#define LINE 64
#define READ_AT_ONCE (64u << 10)

static struct {
  const uint8_t *memory; /* NULL: mode "new" */
  size_t position;
  size_t seen; /* ticks when the chain began */
  handler_time time;
} cold;

static uint64_t read_on(uint64_t seed) {
  for (size_t i = 0; i < READ_AT_ONCE; i += LINE) seed += cold.memory[cold.position + i];
  cold.position = (cold.position + READ_AT_ONCE) % MEMORY_BYTES;
  return seed;
}

/* Waits for a tick. */
static uint64_t leaf(uint64_t seed) {
  while (intercept_count() == cold.seen && !handler_is_over(&cold.time, cold.seen)) {
    if (cold.memory)
      seed = read_on(seed);
    else
      for (int i = 0; i < 1000; i++) seed = seed * 6364136223846793005u + 1;
  }
  return seed;
}

static void prepare_memory(void) {
  uint8_t *memory = malloc(MEMORY_BYTES);
  if (!memory) bench_fail("no memory to fill the caches with");
  memset(memory, 1, MEMORY_BYTES);
  cold.memory = memory;
}

static void run_chains(uint32_t depth, size_t max_ticks) {
  uint32_t chains = CHAIN_FUNCTIONS / depth;
  for (uint32_t chain = 0; !handler_is_over(&cold.time, cold.seen) && cold.seen < max_ticks; chain = (chain + 1) % chains) {
    cold.seen = intercept_count();
    chain_framed.run(chain * depth, cold.seen);
  }
}

int bench_case_handler_cold(const bench_options *options) {
  int is_cold = strcmp(options->mode, "cold") == 0;
  if (!is_cold && strcmp(options->mode, "new") != 0) bench_fail("mode is new or cold, not %s", options->mode);
  if (options->depth < 3 || options->depth > 1000) bench_fail("depth is 3 to 1000 here");
  size_t count, max_ticks = (size_t)(options->seconds * 4 * options->hz) + 100;
  bench_needs needs = {.sample_times = 1};
  bench_counts counts = {0};
  if (is_cold) prepare_memory();
  chain_framed.cut(options->depth - 2, leaf); /* with the two leaves as many frames as in the warm case */

  bench_start(options, &needs);
  intercept_begin(SIGPROF, 1, max_ticks);
  cold.time = handler_time_from_now(options->seconds);
  run_chains(options->depth - 2, max_ticks);
  const intercept_tick *ticks = intercept_end(&count);
  bench_stop(&counts);
  if (counts.samples == 0) bench_fail("the profile is empty after %zu ticks", count);
  handler_report(&counts, ticks, count, 1, options->mode);
  return 0;
}
