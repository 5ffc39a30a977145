/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lock trap. Some C libraries (musl, macOS) hold the lock of pthread_atfork while prepare handlers run. A thread of
 * the profiler's, or a sink of the host's (getaddrinfo registers handlers on macOS), may wait for that lock with one of
 * our locks in its hands. If our prepare handler waited for ours, nobody would go on.
 *
 * The moment is made, not hoped for: a prepare handler that runs before ours waits until a sink stands before the lock.
 * Built with TRAP_MODEL the program brings such a C library's fork and pthread_atfork itself; without, it takes those of
 * the library that it is linked with (musl). Prints one line; 1: failed, killed by SIGALRM: hung.
 */
#include "onstack/onstack.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRAP_ROUNDS 20
#define TRAP_SECONDS 60u

typedef void (*handler)(void);

#ifdef TRAP_MODEL
#define MODEL_HANDLERS 256
static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER;
static handler model_handlers[3][MODEL_HANDLERS];
static int model_count;

/* In place of libc's: the core, linked statically, calls this one. */
int pthread_atfork(handler before, handler parent, handler child) {
  pthread_mutex_lock(&model_lock);
  int full = model_count == MODEL_HANDLERS;
  if (!full) {
    model_handlers[0][model_count] = before;
    model_handlers[1][model_count] = parent;
    model_handlers[2][model_count++] = child;
  }
  pthread_mutex_unlock(&model_lock);
  return full ? 12 : 0;
}

static void model_run(int which) {
  for (int i = 0; i < model_count; i++) {
    handler run = model_handlers[which][which == 0 ? model_count - 1 - i : i];
    if (run) run();
  }
}

static pid_t trap_fork(void) {
  pthread_mutex_lock(&model_lock);
  model_run(0);
  pid_t child = _Fork();
  model_run(child == 0 ? 2 : 1);
  if (child == 0)
    model_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  else
    pthread_mutex_unlock(&model_lock);
  return child;
}
#else
static pid_t trap_fork(void) { return fork(); }
#endif

static void trap_sleep(long nanoseconds) {
  struct timespec pause = {0, nanoseconds};
  nanosleep(&pause, NULL);
}

static void burn(double seconds) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  double end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds;
  do {
    for (volatile int i = 0; i < 100000; i++) continue;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < end);
}

static volatile int wanted; /* the next sample's sink is to register handlers */
static volatile int at_the_lock;
static volatile int met;

static int sink_registers(void *data, const onstack_sample *sample) {
  (void)data;
  (void)sample;
  if (!wanted) return 0;
  wanted = 0;
  at_the_lock = 1;
  pthread_atfork(NULL, NULL, NULL); /* waits for the fork; the consumer's lock is held */
  at_the_lock = 0;
  return 0;
}

/* Registered after the core's, so it runs before. */
static void wait_for_the_sink(void) {
  wanted = 1;
  for (int i = 0; i < 400 && !at_the_lock; i++) burn(0.002);
  trap_sleep(20000000); /* from the mark to the lock itself */
  met += at_the_lock;
}

static int child_is_well(onstack_session *session, int followed) {
  onstack_stats stats = {.size = sizeof(stats)};
  alarm(20);
  for (int i = 0; followed && i < 100 && stats.ticks < 3; i++) {
    burn(0.01);
    onstack_session_stats(session, &stats);
  }
  if (followed && stats.ticks < 3) return 2;
  if (onstack_session_stop(session) != (followed ? 0 : ONSTACK_E_STOPPED)) return 3;
  return onstack_session_free(session) == 0 ? 0 : 4;
}

static int trap(onstack_fork follow) {
  onstack_options options;
  onstack_session *session;
  static int prepared;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  options.sink = sink_registers;
  options.fork = follow;
  if (onstack_session_start(&options, &session) != 0) return 1;
  if (!prepared++) pthread_atfork(wait_for_the_sink, NULL, NULL);
  for (int i = 0; i < TRAP_ROUNDS; i++) {
    int status = 0;
    pid_t child = trap_fork();
    if (child == 0) _exit(child_is_well(session, follow == ONSTACK_FORK_FOLLOW));
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      printf("trap: a child ended with status 0x%x\n", status);
      return 1;
    }
  }
  return onstack_session_free(session) == 0 ? 0 : 1;
}

int main(void) {
  alarm(TRAP_SECONDS);
  int failed = trap(ONSTACK_FORK_STOP) || trap(ONSTACK_FORK_FOLLOW);
  printf("trap: %d forks, in %d of them a sink stood before the lock: %s\n", 2 * TRAP_ROUNDS, met,
         failed ? "FAILED" : "no deadlock");
  /* Without such meetings nothing has been shown. */
  return failed || met < TRAP_ROUNDS;
}
