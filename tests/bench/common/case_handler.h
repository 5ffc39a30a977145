/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the cases share that time the handler. */
#ifndef ONSTACK_BENCH_CASE_HANDLER_H
#define ONSTACK_BENCH_CASE_HANDLER_H

#include "bench.h"
#include "intercept.h"

/* When to end: where each sample takes many milliseconds, the time asked for gives too few ticks for a median. */
typedef struct handler_time {
  uint64_t end_ns, last_ns; /* with enough ticks, and without */
} handler_time;

handler_time handler_time_from_now(double seconds);
int handler_is_over(const handler_time *time, size_t ticks);

/* Emits what the calls cost under the name `metric`, with their losses and frames. */
void handler_report(const bench_counts *counts, const intercept_tick *ticks, size_t count, uint32_t repeats,
                    const char *metric);

#endif
