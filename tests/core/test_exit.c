/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process may end at any moment while it is sampled, in any way, and never by our signal. */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(exit, .init = t_setup);

#define STATUS 7
#define ROUNDS 25
#define FREQUENCY 5000

static void *burns_for_ever(void *unused) {
  for (;;) t_burn(0.01);
  return unused;
}

/* In the child: a session at a high rate over three busy threads, in the middle of its work. */
static void busy(void) {
  onstack_session *session = NULL;
  onstack_options options;
  pthread_t thread;
  t_deadline(20);
  onstack_options_init(&options, sizeof(options));
  options.frequency = FREQUENCY;
  if (onstack_session_start(&options, &session) != 0) _exit(99);
  for (int i = 0; i < 2; i++) pthread_create(&thread, NULL, burns_for_ever, NULL);
  t_burn(0.01);
}

static void ends(void (*way)(int round), int expected) {
  for (int round = 0; round < ROUNDS; round++) {
    fflush(NULL);
    int child = fork();
    if (child == 0) {
      struct rlimit none = {0, 0}; /* no core files */
      setrlimit(RLIMIT_CORE, &none);
      busy();
      way(round);
      _exit(98);
    }
    int status = t_wait(child);
    cr_assert_eq(status, expected, "round %d: %d (1027: by SIGPROF)", round, status);
  }
}

static void by_underscore(int round) { (void)round, _exit(STATUS); }
static void by_exit(int round) { (void)round, exit(STATUS); }
static void by_abort(int round) { (void)round, abort(); }
static void by_quick_exit(int round) { (void)round, quick_exit(STATUS); }
Test(exit, by_the_system_call) { ends(by_underscore, STATUS); }
Test(exit, by_exit) { ends(by_exit, STATUS); }
Test(exit, by_quick_exit) { ends(by_quick_exit, STATUS); }
Test(exit, by_abort) { ends(by_abort, 1000 + SIGABRT); }

static void leaves(int signal) {
  (void)signal;
  _exit(STATUS);
}
static void by_handler(int round) {
  signal(SIGUSR1, leaves);
  t_burn(0.0005 * (round % 5));
  raise(SIGUSR1);
}
Test(exit, from_a_signal_handler) { ends(by_handler, STATUS); }

static void by_fault(int round) {
  (void)round;
  signal(SIGSEGV, SIG_DFL);                           /* Criterion's is there */
  volatile int *volatile nowhere = (volatile int *)8; /* not NULL, which a sanitizer sees before the processor does */
  *nowhere = 1;
}
Test(exit, by_a_fault) { ends(by_fault, 1000 + SIGSEGV); }

/* What is executed has no handler, and uses enough CPU time for a timer that had survived. */
static void by_exec(int round) {
  (void)round;
  execlp("sh", "sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; exit 7", (char *)NULL);
}
Test(exit, by_exec) { ends(by_exec, STATUS); }

static void *executes(void *unused) {
  by_exec(0);
  return unused;
}
static void by_exec_elsewhere(int round) {
  pthread_t thread;
  (void)round;
  pthread_create(&thread, NULL, executes, NULL);
  for (;;) t_burn(0.01);
}
Test(exit, by_exec_in_another_thread) { ends(by_exec_elsewhere, STATUS); }

/* With the signal blocked, ticks are pending when the program is replaced; its mask is inherited, so what would stay
   pending would come when the new program unblocks it. */
static void by_exec_with_ticks_pending(int round) {
  sigset_t set;
  (void)round;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  sigprocmask(SIG_BLOCK, &set, NULL);
  t_burn(0.02);
  execlp("perl", "perl", "-MPOSIX", "-e", "sigprocmask(SIG_UNBLOCK, POSIX::SigSet->new(SIGPROF)); exit 7", (char *)NULL);
  _exit(errno == ENOENT ? STATUS : 97); /* no perl: nothing to see here */
}
Test(exit, by_exec_with_ticks_pending) { ends(by_exec_with_ticks_pending, STATUS); }

/* ---- dlclose of the library itself ---- */

typedef int (*start_function)(const onstack_options *, onstack_session **);
typedef int (*stop_function)(onstack_session *);

static void closes(bool stops_first) {
  const char *build = getenv("BUILD");
  char path[512];
  onstack_session *session = NULL;
  snprintf(path, sizeof(path), "%s/lib/libonstack.so", build ? build : "build");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) cr_skip("%s is not there", path);
  start_function start = (start_function)(uintptr_t)dlsym(library, "onstack_session_start");
  stop_function stop = (stop_function)(uintptr_t)dlsym(library, "onstack_session_stop");
  cr_assert_eq(start(NULL, &session), 0);
  t_burn(0.05);
  if (stops_first) cr_assert_eq(stop(session), 0);
  dlclose(library);
  t_burn(0.2); /* the handler and the drain thread are still there, or this is the end */
  if (!stops_first) cr_assert_eq(stop(session), 0);
  struct onstack_kernel_sigaction now = t_action(SIGPROF);
  cr_assert_eq(now.handler, (uint64_t)(uintptr_t)SIG_DFL);
}
Test(exit, the_library_is_closed_while_it_samples) { closes(false); }
Test(exit, the_library_is_closed_after_its_stop) { closes(true); }

/* ---- with the last thread, not by exit() ---- */

static onstack_session *last_session;
static uint64_t last_samples;

static int counts(void *data, const onstack_sample *sample) {
  (void)sample;
  ++*(uint64_t *)data;
  return 0;
}

/* Runs on whichever thread was the last: ours. */
static void at_the_end(void) {
  onstack_stats stats = {.size = sizeof(stats)};
  if (!last_session) _exit(0);
  if (onstack_session_stop(last_session) != 0) _exit(90);
  if (onstack_session_stats(last_session, &stats) != 0 || stats.delivered != last_samples) _exit(91);
  if (last_samples < 5 || onstack_session_free(last_session) != 0) _exit(92);
  _exit(STATUS);
}

static void *outlives(void *unused) {
  t_burn(0.1);
  return unused;
}

static void ends_with_its_threads(bool stops, uint32_t sessions) {
  fflush(NULL);
  int child = fork();
  if (child == 0) {
    pthread_t thread;
    onstack_options options;
    t_deadline(10);
    signal(SIGPROF, SIG_DFL);
    onstack_options_init(&options, sizeof(options));
    options.frequency = 500;
    options.sink = counts;
    for (uint32_t i = 0; i < sessions; i++) {
      options.sink_data = i == 0 ? &last_samples : calloc(1, sizeof(uint64_t));
      onstack_session *session = NULL;
      if (onstack_session_start(&options, &session) != 0) _exit(99);
      if (i == 0) last_session = stops ? session : NULL;
    }
    atexit(at_the_end);
    pthread_create(&thread, NULL, outlives, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
  }
  int status = t_wait(child);
  cr_assert_eq(status, stops ? STATUS : 0, "%d (1014: it did not end)", status);
}
Test(exit, with_the_last_thread) { ends_with_its_threads(false, 1); }
Test(exit, with_the_last_thread_and_a_stop_in_an_exit_handler) { ends_with_its_threads(true, 1); }
Test(exit, with_the_last_thread_of_three_sessions) { ends_with_its_threads(true, 3); }
