/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least that a profiler around an unwinder needs: a CPU timer on the calling thread and a log. No safety, no
 * weights, no other threads: what the walk itself costs and finds.
 */
#include "walker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define MAX_FRAMES 128
#define RING_WORDS (1u << 17) /* 1 MiB, used in turns; as much as others give their buffer */
#define LOG_WORDS (1u << 22)  /* where every stack is kept */

static struct {
  uint64_t *words; /* records: count, frames */
  size_t capacity, used;
  int keeps_all;
  volatile uint64_t samples, frames;
  uint64_t lost, period_ns;
  timer_t timer;
  struct sigaction found;
} run;

static void on_tick(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  if (run.used + 1 + MAX_FRAMES > run.capacity) {
    if (run.keeps_all) {
      run.lost++;
      return;
    }
    run.used = 0;
  }
  uint64_t *record = run.words + run.used;
  record[0] = walker_linked.walk(context, record + 1, MAX_FRAMES);
  run.used += 1 + record[0];
  run.samples++;
  run.frames += record[0];
}

static const char *start_timer(uint32_t hz) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  run.period_ns = 1000000000u / hz;
  struct timespec every = {.tv_sec = hz == 1, .tv_nsec = hz == 1 ? 0 : (long)run.period_ns};
  struct itimerspec timer = {.it_interval = every, .it_value = every};
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &run.timer) < 0) return "timer_create failed";
  return timer_settime(run.timer, 0, &timer, NULL) < 0 ? "timer_settime failed" : NULL;
}

static const char *start(const bench_options *options, const bench_needs *needs) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
  const char *why = walker_linked.prepare(options->variant);
  if (why) return why;
  run.keeps_all = needs->stacks;
  run.capacity = needs->stacks ? LOG_WORDS : RING_WORDS;
  run.words = malloc(run.capacity * sizeof *run.words);
  if (!run.words) return "no memory for the log";
  memset(run.words, 0, run.capacity * sizeof *run.words);
  run.used = run.samples = run.frames = run.lost = 0;
  action.sa_sigaction = on_tick;
  if (sigaction(SIGPROF, &action, &run.found) < 0) return "the handler cannot be installed";
  return start_timer(options->hz);
}

static const char *stop(bench_counts *counts) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  timer_delete(run.timer);
  sigaction(SIGPROF, &ignore, NULL); /* discards a pending tick */
  sigaction(SIGPROF, &run.found, NULL);
  if (counts)
    *counts = (bench_counts){
        .samples = run.samples, .frames = run.frames, .time_ns = run.samples * run.period_ns, .dropped = (int64_t)run.lost};
  return NULL;
}

static void each_stack(bench_visit visit, void *data) {
  for (size_t at = 0; at < run.used; at += 1 + run.words[at]) visit(data, run.words + at + 1, run.words[at], 1);
}

const bench_subject bench_subject_linked = {.name = "walker", .start = start, .stop = stop, .each_stack = each_stack};
