/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why stop goes by way of SIG_IGN: the same timers and handlers as a profiler's, restored in the two ways. Before Linux
 * 6.13 a deleted timer leaves its pending signal behind, and "delete the timers, restore SIG_DFL" must be seen to die;
 * with SIG_IGN in between it lives. Each runs in a child. Nothing of onstack is called.
 */
#include "../support.h"
#include "burners.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void on_tick(int signal) { (void)signal; }

static timer_t arm(pid_t thread) {
  const struct itimerspec every = {{0, 1000000}, {0, 1000000}};
  struct sigevent event;
  timer_t timer;
  memset(&event, 0, sizeof(event));
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = thread;
  if (timer_create((clockid_t)(~(unsigned)thread << 3 | 6), &event, &timer) != 0) _exit(2);
  timer_settime(timer, 0, &every, NULL);
  return timer;
}

static void cycle(bool ignore_first) {
  timer_t timers[BURNERS];
  signal(SIGPROF, on_tick);
  for (int i = 0; i < BURNERS; i++) timers[i] = arm(burners_thread(i));
  usleep(4000);
  for (int i = 0; i < BURNERS; i++) timer_delete(timers[i]);
  if (ignore_first) signal(SIGPROF, SIG_IGN);
  signal(SIGPROF, SIG_DFL);
}

/* The signal that ended it, or 0; *done cycles were whole. */
static int run(bool ignore_first, int cycles, volatile int *done) {
  int status = 0;
  *done = 0;
  pid_t child = fork();
  if (child == 0) {
    burners_start();
    for (; *done < cycles; ++*done) cycle(ignore_first);
    usleep(20000); /* what is pending comes out */
    _exit(0);
  }
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The same on one thread, without chance: a tick that is certainly pending when its timer is deleted. */
static int run_one_thread(bool ignore_first) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    signal(SIGPROF, on_tick);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    timer_t timer = arm((pid_t)syscall(SYS_gettid));
    do {
      burn(0.02);
      sigpending(&set);
    } while (!sigismember(&set, SIGPROF));
    timer_delete(timer);
    if (ignore_first) signal(SIGPROF, SIG_IGN);
    signal(SIGPROF, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _exit(0);
  }
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool kernel_keeps_pending_signals(void) {
  struct utsname kernel;
  int major = 0, minor = 0;
  uname(&kernel);
  sscanf(kernel.release, "%d.%d", &major, &minor);
  return major < 6 || (major == 6 && minor < 13);
}

#define CYCLES 200

int main(void) {
  volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (done == MAP_FAILED) return 2;
  int ended = run(true, CYCLES, done);
  check(ended == 0, "a restoration by way of SIG_IGN lives", "signal %d after %d cycles", ended, *done);
  check(run_one_thread(true) == 0, "a pending tick, by way of SIG_IGN, is gone", "unblocked over SIG_DFL");
  int pending = run_one_thread(false);
  ended = run(false, CYCLES, done);
  printf("note: the naive restoration under load: signal %d after %d cycles\n", ended, *done);
  if (kernel_keeps_pending_signals())
    check(pending == SIGPROF, "a pending tick, naively, kills", "signal %d", pending);
  else
    printf("note: a pending tick, naively: signal %d (since 6.13 a deleted timer's signal is dropped)\n", pending);
  return check_status();
}
