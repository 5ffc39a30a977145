/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stopwatch around a profiler's signal handler. It stands in front of the installed action and calls it with the
 * siginfo and the context of the profiler's own timer, so that the profiler cannot tell the difference.
 */
#ifndef ONSTACK_BENCH_INTERCEPT_H
#define ONSTACK_BENCH_INTERCEPT_H

#include <stddef.h>
#include <stdint.h>

#define INTERCEPT_MAX_REPEATS 50
#define INTERCEPT_WARM_UP 10 /* calls at the beginning of a repetition that are not looked at */

/* One signal as it came. */
typedef struct intercept_tick {
  uint64_t begin_ns, end_ns;
  uint64_t pc; /* that was interrupted */
  uint32_t call_ns[INTERCEPT_MAX_REPEATS];
} intercept_tick;

/*
 * Takes the place of the present action of `signal`, with its flags and mask, and calls it `repeats` times for each
 * signal. Only the calling thread is measured: signals on others pass.
 */
void intercept_begin(int signal, uint32_t repeats, size_t max_ticks);

/* Signals so far; stops at max_ticks (later signals pass unmeasured). */
size_t intercept_count(void);

/* Puts the previous action back. The ticks stay readable. Ends the run if somebody displaced the stopwatch. */
const intercept_tick *intercept_end(size_t *count);

/* What the stopwatch shows for a handler that does nothing, in ns. */
double intercept_empty_call_ns(void);

#endif
