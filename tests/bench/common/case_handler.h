/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the cases share that time the handler. */
#ifndef ONSTACK_BENCH_CASE_HANDLER_H
#define ONSTACK_BENCH_CASE_HANDLER_H

#include "bench.h"
#include "intercept.h"

/* Emits what the calls cost under the name `metric`, with their losses and frames. */
void handler_report(const bench_counts *counts, const intercept_tick *ticks, size_t count, uint32_t repeats,
                    const char *metric);

#endif
