/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "intercept.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "bench.h"

typedef void (*handler)(int, siginfo_t *, void *);

static struct {
  int signal;
  uint32_t repeats;
  struct sigaction found;
  handler call;
  intercept_tick *ticks;
  size_t capacity;
  volatile size_t count; /* written in the signal, read by the thread that it interrupts */
} stopwatch;

static __thread int is_measured;

static uint64_t interrupted_pc(const ucontext_t *context) {
#if defined(__x86_64__)
  return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#else
  return context->uc_mcontext.pc;
#endif
}

static void measure(handler call, int signal, siginfo_t *info, void *context, uint32_t repeats, intercept_tick *tick) {
  tick->begin_ns = bench_now_ns();
  for (uint32_t i = 0; i < repeats; i++) {
    uint64_t begin = bench_now_ns();
    call(signal, info, context);
    tick->call_ns[i] = (uint32_t)(bench_now_ns() - begin);
  }
  tick->end_ns = bench_now_ns();
}

/*
 * onstack goes back on top of a newer handler, unless that is another copy of itself, which it knows by a mark of 16
 * bytes before the entry. The stopwatch carries the same mark, so it stays in front; it passes every signal on, as a
 * copy would.
 */
void bench_stopwatch_entry(int signal, siginfo_t *info, void *context);
__asm__(".pushsection .text\n.balign 16\n.ascii \"onstack-handler1\"\n"
        ".type bench_stopwatch_entry, %function\nbench_stopwatch_entry:\n"
#if defined(__x86_64__)
        "jmp bench_stopwatch_on_signal\n"
#else
        "b bench_stopwatch_on_signal\n"
#endif
        ".popsection\n");

__attribute__((used)) void bench_stopwatch_on_signal(int signal, siginfo_t *info, void *context);
void bench_stopwatch_on_signal(int signal, siginfo_t *info, void *context) {
  int wanted = bench_subject_linked.tick_code;
  if (!is_measured || stopwatch.count >= stopwatch.capacity || (wanted && info->si_code != wanted)) {
    stopwatch.call(signal, info, context);
    return;
  }
  /* On the stack first: a line of the big table, cold since the last tick, has no business in the measured time. */
  intercept_tick tick;
  tick.pc = interrupted_pc(context);
  measure(stopwatch.call, signal, info, context, stopwatch.repeats, &tick);
  memcpy(&stopwatch.ticks[stopwatch.count], &tick,
         offsetof(intercept_tick, call_ns) + stopwatch.repeats * sizeof tick.call_ns[0]);
  stopwatch.count++;
}

void intercept_begin(int signal, uint32_t repeats, size_t max_ticks) {
  stopwatch.signal = signal;
  stopwatch.repeats = repeats;
  stopwatch.capacity = max_ticks;
  stopwatch.ticks = malloc(max_ticks * sizeof *stopwatch.ticks);
  if (!stopwatch.ticks || repeats > INTERCEPT_MAX_REPEATS) bench_fail("no memory for %zu ticks", max_ticks);
  memset(stopwatch.ticks, 0, max_ticks * sizeof *stopwatch.ticks); /* page faults here, not in the signal */
  if (sigaction(signal, NULL, &stopwatch.found) < 0 || !(stopwatch.found.sa_flags & SA_SIGINFO))
    bench_fail("no handler with siginfo on signal %d: the profiler did not install one", signal);
  stopwatch.call = stopwatch.found.sa_sigaction;
  is_measured = 1;

  struct sigaction mine = stopwatch.found;
  mine.sa_sigaction = bench_stopwatch_entry;
  if (sigaction(signal, &mine, NULL) < 0) bench_fail("the stopwatch cannot be installed on signal %d", signal);
}

size_t intercept_count(void) { return stopwatch.count; }

const intercept_tick *intercept_end(size_t *count) {
  struct sigaction present;
  sigaction(stopwatch.signal, NULL, &present);
  if (present.sa_sigaction != bench_stopwatch_entry)
    bench_fail("somebody displaced the stopwatch: the figures would be wrong");
  sigaction(stopwatch.signal, &stopwatch.found, NULL);
  *count = stopwatch.count;
  return stopwatch.ticks;
}

static void do_nothing(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

double intercept_empty_call_ns(void) {
  handler volatile empty = do_nothing; /* volatile: the call must not be inlined away */
  double medians[200];
  for (size_t i = 0; i < sizeof medians / sizeof *medians; i++) {
    double calls[INTERCEPT_MAX_REPEATS];
    intercept_tick tick;
    measure(empty, 0, NULL, NULL, INTERCEPT_MAX_REPEATS, &tick);
    for (size_t j = 0; j < INTERCEPT_MAX_REPEATS; j++) calls[j] = tick.call_ns[j];
    medians[i] = bench_median(calls, INTERCEPT_MAX_REPEATS);
  }
  return bench_median(medians, sizeof medians / sizeof *medians);
}
