/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Walk against truth: kinds of outcome, and where the bad ones were. */
#ifndef ONSTACK_TRUTH_VERDICT_H
#define ONSTACK_TRUTH_VERDICT_H

#include "onstack/onstack.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum truth_verdict {
  TRUTH_EXACT,      /* the whole stack, and said to be whole */
  TRUTH_TRUNCATED,  /* right as far as it goes, and says that it does not go on */
  TRUTH_FALSE_ROOT, /* right as far as it goes, but claims to be whole */
  TRUTH_SKIPPED,    /* every frame is true, but one is missing in the middle */
  TRUTH_INVENTED,   /* a frame that nobody called from */
  TRUTH_VERDICTS
} truth_verdict;

#define TRUTH_PLACES 4096u

typedef struct truth_place {
  uint64_t pc;
  uint64_t count;
  truth_verdict verdict;
  onstack_truncation truncation;
  uint32_t at;          /* the first frame that differs */
  uint64_t got, wanted; /* there; 0: none */
} truth_place;

typedef struct truth_counts {
  uint64_t steps;
  uint64_t compared;
  uint64_t overwritten; /* not compared: the subject has overwritten a return address that it came from */
  uint64_t rooted;
  uint64_t deepest;
  uint64_t verdicts[TRUTH_VERDICTS];
  uint64_t truncated[ONSTACK_TRUNCATION_COUNT];
  uint32_t place_count;
  truth_place places[TRUTH_PLACES];
} truth_counts;

void truth_counts_add(truth_counts *counts, const uint64_t *truth, size_t truth_count, const uint64_t *frames,
                      onstack_walk_result walk);

/* One line of figures, then at most `places` lines of where the stacks were not exact, the most frequent first. */
void truth_counts_print(truth_counts *counts, const char *name, uint32_t places, FILE *out);

#endif
