/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The frame of every benchmark program: one program is one subject (a profiler) linked with all cases, so that every
 * subject interrupts the same machine code. A run measures one case in a fresh process and prints its figures.
 */
#ifndef ONSTACK_BENCH_H
#define ONSTACK_BENCH_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_EXIT_FAILED 1
#define BENCH_EXIT_USAGE 2
#define BENCH_EXIT_UNAVAILABLE 77 /* this subject cannot run here; not a failure of the benchmark */

/* What the command line asks for; zero where a case does not use it. */
typedef struct bench_options {
  const char *variant; /* of the subject: an unwinder, a compiled-in feature; the subject knows it */
  const char *mode;    /* of the case: "tick" or "warm"; "new" or "cold" */
  uint32_t hz;         /* ticks a second that the subject is asked for */
  uint32_t depth;      /* recursive frames under the measured signal */
  uint32_t threads;
  uint32_t life_ms; /* CPU time that a short thread lives */
  uint32_t repeats;
  double seconds; /* wall time that the case measures (memory: CPU time that is sampled) */
} bench_options;

/* What a subject must bring for a case beyond the options. Filled in by the case. */
typedef struct bench_needs {
  int sample_times;      /* the case sorts handler calls by the samples they left */
  uint32_t buffer_bytes; /* 0: the subject's default */
  int stacks;            /* the case looks at every stack (each_stack) */
} bench_needs;

/* What a subject collected between start and stop. */
typedef struct bench_counts {
  uint64_t samples; /* handler calls that left a stack in the profile */
  uint64_t frames;  /* sum of their frame counts */
  uint64_t time_ns; /* sum of weight x period: the CPU time that the profile accounts for */
  int64_t dropped;  /* as the subject counts them; -1 where it does not */
} bench_counts;

/* A stack that a subject collected, leaf first, and how many samples had it. The addresses live during the call. */
typedef void (*bench_visit)(void *data, const uint64_t *frames, size_t frame_count, uint64_t samples);

/* A profiler under measurement. Texts that are returned are errors and live for ever; NULL is success. */
typedef struct bench_subject {
  const char *name;
  /* Before anything else; may replace the process image (settings that are only read before main). May be NULL. */
  void (*prepare)(char **argv, const bench_options *options);
  const char *(*start)(const bench_options *options, const bench_needs *needs);
  /* Ends sampling and leaves nothing running. `counts` NULL: whatever was collected may be thrown away. */
  const char *(*stop)(bench_counts *counts);
  /* CLOCK_MONOTONIC of every sample in order of time, valid after stop; NULL where every call leaves a sample. */
  const uint64_t *(*sample_times)(size_t *count);
  /* Hands over all stacks; valid after stop if `stacks` was asked for. NULL: the subject records no stacks. */
  void (*each_stack)(bench_visit visit, void *data);
  /* si_code of the signals that it samples by; the stopwatch lets others pass. 0: all of them. */
  int tick_code;
} bench_subject;

extern const bench_subject bench_subject_linked;

typedef int (*bench_case)(const bench_options *options);
int bench_case_handler_cost(const bench_options *options);
int bench_case_handler_cold(const bench_options *options);
int bench_case_exact(const bench_options *options);
int bench_case_overhead(const bench_options *options);
int bench_case_memory(const bench_options *options);
int bench_case_weights(const bench_options *options);
int bench_case_short_threads(const bench_options *options);
int bench_case_start_stop(const bench_options *options);
int bench_case_displacement(const bench_options *options);

/* What a program that does its own burning (a host of another language) puts in the place of the recursion: returns
   when `over` returns non-zero, which it asks every millisecond or so. NULL: the recursion. */
extern void (*bench_burn_hook)(int (*over)(void *data), void *data);

/* The command line (main.c): PROGRAM VARIANT CASE [key=value ...]. Returns the exit status. */
int bench_run(int argc, char **argv);

/* ---- services ----------------------------------------------------------------------------------------------- */

/* CLOCK_MONOTONIC. Signal-safe. */
uint64_t bench_now_ns(void);
/* CPU time of the calling thread. Signal-safe. */
uint64_t bench_thread_cpu_ns(void);
/* CPU time of all threads. */
uint64_t bench_process_cpu_ns(void);
void bench_sleep_ns(uint64_t ns);

/* One figure of this run, a line of JSON on standard output. */
void bench_emit(const char *metric, const char *unit, double value);

/* Ends the run: the text goes to standard error and into the table. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Start and stop that end the run on failure. */
void bench_start(const bench_options *options, const bench_needs *needs);
void bench_stop(bench_counts *counts);

/* Sorts `values` and returns the middle one, or the one below which that share of them lies; 0 when there are none. */
double bench_median(double *values, size_t count);
double bench_quantile(double *values, size_t count, double share);

#endif
