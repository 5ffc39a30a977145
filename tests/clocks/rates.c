/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clocks side by side at rates above the kernel's tick: how many signals a CPU second, and what part of the CPU time they
 * stand for together (weight x period / CPU time; with timers a signal weighs 1 + its overruns).
 *
 * `running` is an attempt without perf events: a timer on real time, which the CPU timer's tick turns on and a tick that
 * finds the thread asleep turns off; each tick weighs what the thread's CPU clock has gone on.
 */
#include "clocks.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef enum kind { PERF_CPU_CLOCK, PERF_TASK_CLOCK, PERF_WITHOUT_KERNEL, CPU_TIMER, RUNNING, KINDS } kind;
static const char *const names[KINDS] = {"perf cpu-clock", "perf task-clock", "perf, no kernel", "CPU timer", "running"};

typedef enum load { USER, KERNEL, SLEEPER } load;
static const char *const loads[] = {"computes", "in the kernel", "5 ms, poll 10 ms"};

static kind clock_kind;
static load work_load;
static int64_t period;

typedef struct burner {
  pthread_t thread;
  double cpu;
  uint64_t signals, weight;
  int polls, interrupted;
  /* of `running` */
  timer_t timer, real;
  int64_t accounted, seen;
  bool on;
} burner;

static burner burners[64];
static _Thread_local burner *self;

static int64_t own_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

static timer_t make_timer(int clock, int value) {
  struct sigevent event;
  timer_t timer;
  memset(&event, 0, sizeof(event));
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_value.sival_int = value;
  event._sigev_un._tid = thread_id();
  if (timer_create(clock, &event, &timer) != 0) exit(1);
  return timer;
}

static void set_timer(timer_t timer, int64_t each) {
  const struct timespec step = {each / 1000000000, each % 1000000000};
  timer_settime(timer, 0, &(struct itimerspec){step, step}, NULL);
}

static void running_tick(const siginfo_t *info) {
  int64_t now = own_ns(), step = now - self->seen;
  bool real = info->si_value.sival_int != 0;
  self->seen = now;
  /* With overruns the thread was ready and had no processor; without, it slept and was woken by this. */
  if (real && step < period / 2 && info->si_overrun == 0) set_timer(self->real, 0), self->on = false;
  if (!real && !self->on) set_timer(self->real, period), self->on = true;
  if (now - self->accounted < period) return;
  uint64_t weight = (uint64_t)((now - self->accounted) / period);
  self->accounted += (int64_t)weight * period;
  self->signals++;
  self->weight += weight;
}

static void tick(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  if (clock_kind == RUNNING) {
    running_tick(info);
    return;
  }
  self->signals++;
  self->weight += 1 + (clock_kind == CPU_TIMER ? (uint64_t)info->si_overrun : 0);
}

static void sleep_in_poll(void) {
  burn_user(0.005);
  self->polls++;
  if (poll(NULL, 0, 10) < 0 && errno == EINTR) self->interrupted++;
}

static void work(double seconds) {
  if (work_load == USER) burn_user(seconds);
  if (work_load == KERNEL) burn_kernel(seconds);
  for (double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
       work_load == SLEEPER && seconds_of(CLOCK_THREAD_CPUTIME_ID) < end;)
    sleep_in_poll();
}

static void under_perf(double seconds) {
  const uint64_t config = clock_kind == PERF_CPU_CLOCK ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_TASK_CLOCK;
  int file = perf_open(&(perf_clock){config, (uint64_t)period, SIGPROF, clock_kind == PERF_WITHOUT_KERNEL, false});
  if (file < 0) exit(77);
  perf_switch(file, true);
  work(seconds);
  perf_switch(file, false);
  close(file);
}

static void under_timers(double seconds) {
  self->timer = make_timer(CLOCK_THREAD_CPUTIME_ID, 0);
  if (clock_kind == RUNNING) self->real = make_timer(CLOCK_MONOTONIC, 1);
  set_timer(self->timer, period);
  work(seconds);
  timer_delete(self->timer);
  if (clock_kind == RUNNING) timer_delete(self->real);
}

static double burner_seconds;
static void *burn(void *data) {
  self = data;
  double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  self->accounted = self->seen = own_ns();
  (clock_kind < CPU_TIMER ? under_perf : under_timers)(burner_seconds);
  self->cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
  return NULL;
}

static void row(int threads, int frequency, double seconds) {
  double cpu = 0, signals = 0, weight = 0;
  int polls = 0, interrupted = 0;
  period = 1000000000 / frequency;
  burner_seconds = seconds;
  memset(burners, 0, sizeof(burners));
  for (int i = 0; i < threads; i++) pthread_create(&burners[i].thread, NULL, burn, &burners[i]);
  for (int i = 0; i < threads; i++) {
    const burner *b = &burners[i];
    pthread_join(b->thread, NULL);
    cpu += b->cpu, signals += (double)b->signals, weight += (double)b->weight;
    polls += b->polls, interrupted += b->interrupted;
  }
  printf("| %s | %s, %d | %d | %.0f | %.3f |", names[clock_kind], loads[work_load], threads, frequency, signals / cpu,
         weight * (double)period * 1e-9 / cpu);
  if (polls > 0)
    printf(" %d of %d |\n", interrupted, polls);
  else
    printf(" |\n");
  fflush(stdout);
}

int main(void) {
  static const int frequencies[] = {1000, 4000, 10000};
  const perf_clock first = {PERF_COUNT_SW_TASK_CLOCK, 1000000, SIGPROF, false, false};
  struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  int file = perf_open(&first);
  if (file < 0) {
    printf("perf_event_open is refused here: %s\n", strerror(-file));
    return 77;
  }
  close(file);
  puts("| clock | threads | Hz | signals a CPU second | weight | polls that ended with EINTR |\n| --- | --- | --- | --- | "
       "--- | --- |");
  for (int i = 0; i < 3; i++)
    for (int threads = 1; threads <= 4; threads += 3)
      for (clock_kind = 0; clock_kind < KINDS; clock_kind++) row(threads, frequencies[i], threads > 1 ? 0.5 : 1);
  work_load = KERNEL;
  for (clock_kind = 0; clock_kind < KINDS; clock_kind++) row(1, 4000, 1);
  work_load = SLEEPER;
  for (clock_kind = 0; clock_kind < KINDS; clock_kind++) row(1, 4000, 0.3);
  return 0;
}
