/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compares a sampled stack of chain_plain with the only one that the program can have had there. */
#ifndef ONSTACK_BENCH_CHECKER_H
#define ONSTACK_BENCH_CHECKER_H

#include <stddef.h>
#include <stdint.h>

typedef enum checker_verdict {
  CHECKER_EXACT,     /* every frame from the interrupted PC to main */
  CHECKER_TRUNCATED, /* right as far as it goes */
  CHECKER_NO_LEAF,   /* it does not begin with an interrupted PC, or is empty */
  CHECKER_WRONG,     /* a frame is missing in the middle, or one is there that nobody called from */
  CHECKER_OUTSIDE,   /* not interrupted in the chains: not checked */
  CHECKER_VERDICTS
} checker_verdict;

typedef struct checker_truth {
  uint32_t depth;      /* functions in a chain */
  uint64_t main_site;  /* return address in the function that called the case */
  uint64_t trampoline; /* where handlers return to: frames up to it are the profiler's own */
  uint64_t libc_low, libc_high;
  const uint64_t *pcs; /* that were interrupted, sorted */
  size_t pc_count;
} checker_truth;

checker_verdict checker_stack(const checker_truth *truth, const uint64_t *frames, size_t count);

#endif
