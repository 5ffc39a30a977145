/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a profiler would have to live with whose clock is a perf event: each line says what was seen. */
#include "clocks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND ((uint64_t)1000000)
static const perf_clock each_ms = {PERF_COUNT_SW_TASK_CLOCK, MILLISECOND, SIGPROF, false, false};

static volatile int seen, seen_number, seen_as_io, seen_elsewhere;
static int32_t expected_thread;
static void tick(int signal, siginfo_t *info, void *context) {
  (void)context;
  seen++;
  seen_number = info->si_fd;
  seen_as_io += signal == SIGIO;
  seen_elsewhere += thread_id() != expected_thread;
}

static void forget(void) { seen = seen_number = seen_as_io = seen_elsewhere = 0; }

static void burn_with(int file, double seconds) {
  perf_switch(file, true);
  burn_user(seconds);
  perf_switch(file, false);
}

static void mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  sigprocmask(how, &set, NULL);
}

static void blocked_and_closed(void) {
  int file = perf_open(&each_ms);
  mask(SIG_BLOCK);
  burn_with(file, 0.05);
  close(file);
  mask(SIG_UNBLOCK);
  printf("blocked for 50 ms at 1,000 Hz, event closed, then unblocked: %d signal\n", seen);
}

static void renumbered(void) {
  int file = perf_open(&each_ms), other = fcntl(file, F_DUPFD_CLOEXEC, 900);
  close(file);
  burn_with(other, 0.01);
  printf("event %d is number %d now, %d is closed: %d signals say %d\n", file, other, file, seen, seen_number);
  close(other);
}

static void held_by_a_child(void) {
  int ends[2], file = perf_open(&each_ms);
  char byte;
  if (pipe(ends) != 0) return;
  perf_switch(file, true);
  pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) < 0);
  }
  close(file);
  forget();
  burn_user(0.01);
  printf("event closed, a child of fork has it open: %d signals in 10 ms\n", seen);
  close(ends[0]);
  close(ends[1]);
  waitpid(child, NULL, 0);
}

static void switched_off_by_a_child(void) {
  int file = perf_open(&each_ms);
  perf_switch(file, true);
  pid_t child = fork();
  if (child == 0) {
    perf_switch(file, false);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  forget();
  burn_user(0.01);
  printf("a child of fork switches its copy off: %d signals in 10 ms in the parent\n", seen);
  close(file);
}

static void no_room_in_the_queue(int signal, const char *name) {
  struct rlimit limit, none;
  perf_clock clock = each_ms;
  clock.signal = signal;
  int file = perf_open(&clock);
  getrlimit(RLIMIT_SIGPENDING, &limit);
  none = limit;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_SIGPENDING, &none);
  burn_with(file, 0.01);
  setrlimit(RLIMIT_SIGPENDING, &limit);
  printf("RLIMIT_SIGPENDING is used up, %s: %d signals, %d of them came as SIGIO\n", name, seen, seen_as_io);
  close(file);
}

static void *burn_elsewhere(void *unused) {
  burn_user(0.05);
  return unused;
}

static void inherited(void) {
  perf_clock clock = each_ms;
  pthread_t thread;
  clock.inherit = true;
  int file = perf_open(&clock);
  if (file < 0) {
    puts("inherit is refused");
    return;
  }
  perf_switch(file, true);
  pthread_create(&thread, NULL, burn_elsewhere, NULL);
  pthread_join(thread, NULL);
  perf_switch(file, false);
  printf("inherited by a thread that runs for 50 ms: %d signals, %d of them on that thread\n", seen, seen_elsewhere);
  close(file);
}

static double each_ns(void (*call)(int), int file) {
  const int rounds = 100000;
  double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < rounds; i++) call(file);
  return (seconds_of(CLOCK_THREAD_CPUTIME_ID) - before) * 1e9 / rounds;
}

static void ask_id(int file) {
  uint64_t id;
  ioctl(file, PERF_EVENT_IOC_ID, &id);
}
static void make_and_close(int unused) {
  (void)unused;
  close(perf_open(&each_ms));
}

static void costs(void) {
  int file = perf_open(&each_ms);
  printf("to ask whether a number is still our event: %.0f ns; to make one and close it: %.0f ns\n", each_ns(ask_id, file),
         each_ns(make_and_close, file));
  close(file);
}

int main(void) {
  static const int signals[] = {SIGPROF, SIGIO, 0};
  struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
  for (int i = 0; signals[i]; i++) sigaction(signals[i], &action, NULL);
  sigaction(SIGRTMIN + 1, &action, NULL);
  expected_thread = thread_id();
  int file = perf_open(&each_ms);
  if (file < 0) {
    printf("perf_event_open is refused here: %s\n", strerror(-file));
    return 77;
  }
  close(file);
  forget(), blocked_and_closed();
  forget(), renumbered();
  held_by_a_child();
  switched_off_by_a_child();
  forget(), no_room_in_the_queue(SIGPROF, "SIGPROF");
  forget(), no_room_in_the_queue(SIGRTMIN + 1, "a real-time signal");
  forget(), inherited();
  costs();
  return 0;
}
