/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compares a sampled stack of chain_plain with the only one that the program can have had there. */
#ifndef ONSTACK_BENCH_JUDGE_H
#define ONSTACK_BENCH_JUDGE_H

#include <stddef.h>
#include <stdint.h>

typedef enum judge_verdict {
  JUDGE_EXACT,     /* every frame from the interrupted PC to main */
  JUDGE_TRUNCATED, /* right as far as it goes */
  JUDGE_NO_LEAF,   /* it does not begin with an interrupted PC, or is empty */
  JUDGE_WRONG,     /* a frame is missing in the middle, or one is there that nobody called from */
  JUDGE_OUTSIDE,   /* not interrupted in the chains: not judged */
  JUDGE_VERDICTS
} judge_verdict;

typedef struct judge_truth {
  uint32_t depth;      /* functions in a chain */
  uint64_t main_site;  /* return address in the function that called the case */
  uint64_t trampoline; /* where handlers return to: frames up to it are the profiler's own */
  uint64_t libc_low, libc_high;
  const uint64_t *pcs; /* that were interrupted, sorted */
  size_t pc_count;
} judge_truth;

judge_verdict judge_stack(const judge_truth *truth, const uint64_t *frames, size_t count);

#endif
