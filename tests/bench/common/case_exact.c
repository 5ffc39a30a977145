/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How many of the sampled stacks are the true ones, in code without frame pointers: chain_plain and libc. */
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "chain.h"
#include "intercept.h"
#include "checker.h"

#define SWEEPS_A_LOOK 100 /* between two looks at the clock, whose code is not checked */

typedef struct exact_counts {
  checker_truth truth;
  uint64_t verdicts[CHECKER_VERDICTS];
} exact_counts;

static int find_libc(struct dl_phdr_info *info, size_t size, void *data) {
  checker_truth *truth = data;
  uint64_t inside = (uint64_t)(uintptr_t)bsearch;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uint64_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, high = low + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type != PT_LOAD || inside < low || inside >= high) continue;
    truth->libc_low = low;
    truth->libc_high = high;
  }
  return 0;
}

/* What the kernel puts below a handler's frame: libc's own sigaction hides it. */
static uint64_t find_trampoline(int signal) {
  struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
  } action;
  if (syscall(SYS_rt_sigaction, signal, NULL, &action, sizeof action.mask) < 0) return 0;
  return (uint64_t)(uintptr_t)action.restorer;
}

static int by_address(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void note_pcs(checker_truth *truth, const intercept_tick *ticks, size_t count) {
  uint64_t *pcs = malloc((count + 1) * sizeof *pcs);
  if (!pcs) bench_fail("no memory for %zu addresses", count);
  for (size_t i = 0; i < count; i++) pcs[i] = ticks[i].pc;
  qsort(pcs, count, sizeof *pcs, by_address);
  truth->pcs = pcs;
  truth->pc_count = count;
}

static void visit(void *data, const uint64_t *frames, size_t count, uint64_t samples) {
  exact_counts *t = data;
  t->verdicts[checker_stack(&t->truth, frames, count)] += samples;
}

static void report(const exact_counts *t) {
  uint64_t checked = 0;
  for (int i = 0; i < CHECKER_OUTSIDE; i++) checked += t->verdicts[i];
  if (checked < 20) bench_fail("only %llu samples were in the chains; give more seconds", (unsigned long long)checked);
  const double percent = 100.0 / (double)checked;
  bench_emit("exact", "% of samples", (double)t->verdicts[CHECKER_EXACT] * percent);
  bench_emit("truncated", "% of samples", (double)t->verdicts[CHECKER_TRUNCATED] * percent);
  bench_emit("no-leaf", "% of samples", (double)t->verdicts[CHECKER_NO_LEAF] * percent);
  bench_emit("wrong", "% of samples", (double)t->verdicts[CHECKER_WRONG] * percent);
  bench_emit("checked", "samples", (double)checked);
}

static void run_sweeps(uint32_t depth, double seconds, size_t max_ticks) {
  uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * 1e9), seed = 1;
  const uint32_t last = CHAIN_FUNCTIONS / depth * depth;
  while (bench_now_ns() < end_ns && intercept_count() < max_ticks)
    for (int i = 0; i < SWEEPS_A_LOOK; i++)
      for (uint32_t first = 0; first < last; first += depth) seed = chain_plain.run(first, seed);
}

int bench_case_exact(const bench_options *options) {
  bench_counts counts = {0};
  bench_needs needs = {.stacks = 1};
  exact_counts t = {.truth = {.depth = options->depth}};
  size_t count, max_ticks = (size_t)(options->seconds * 4 * options->hz) + 100;
  if (!bench_subject_linked.each_stack) bench_fail("%s records no stacks", bench_subject_linked.name);
  if (options->depth < 2 || options->depth > 1000) bench_fail("depth is 2 to 1000 here");
  t.truth.main_site = (uint64_t)(uintptr_t)__builtin_return_address(0);
  dl_iterate_phdr(find_libc, &t.truth);
  chain_plain.cut(options->depth, NULL);

  bench_start(options, &needs);
  intercept_begin(SIGPROF, 1, max_ticks);
  t.truth.trampoline = find_trampoline(SIGPROF);
  run_sweeps(options->depth, options->seconds, max_ticks);
  const intercept_tick *ticks = intercept_end(&count);
  bench_stop(&counts);

  note_pcs(&t.truth, ticks, count);
  bench_subject_linked.each_stack(visit, &t);
  report(&t);
  return 0;
}
