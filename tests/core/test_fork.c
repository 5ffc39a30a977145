/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork() at any instant: the parent goes on, the child is clean and stopped and may start its own. */
#include "sampler/session/slot.h"
#include "support.h"

#include "sampler/unwind/walk.h"
#include "onstack/traceback.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fork, .init = t_setup);

/* In a child an assert of Criterion's would be lost: it returns the number of the first step that failed. */
#define STEP(number, condition)                                                                                             \
  do {                                                                                                                      \
    if (!(condition)) _exit(number);                                                                                        \
  } while (0)

static uint64_t raw_handler(int signal) {
  struct onstack_kernel_sigaction action = {0};
  onstack_sys_sigaction(signal, NULL, &action);
  return action.handler;
}

static volatile int plain_calls;
static void plain_handler(int signal) {
  (void)signal;
  plain_calls++;
}

static uint64_t child_samples;
static int count_samples(void *data, const onstack_sample *sample) {
  (void)sample;
  ++*(uint64_t *)data;
  return 0;
}

/* Starts, burns, stops: 0 or a step number from 60 up. */
static int own_session(void) {
  onstack_session *session = NULL;
  onstack_options options;
  onstack_stats stats = {.size = sizeof(stats)};
  child_samples = 0;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  options.sink = count_samples;
  options.sink_data = &child_samples;
  if (onstack_session_start(&options, &session) != 0) return 60;
  t_burn(0.1);
  if (onstack_session_stop(session) != 0) return 61;
  if (onstack_session_stats(session, &stats) != 0 || stats.samples < 3) return 62;
  if (child_samples != stats.delivered) return 63;
  if (onstack_session_free(session) != 0) return 64;
  return 0;
}

static void in_child_of(onstack_session *session, uint64_t found) {
  t_deadline(20);
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_kernel_sigset mask = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &mask);
  STEP(1, raw_handler(SIGPROF) == found);
  STEP(2, !(mask & ONSTACK_SIGBIT(SIGPROF)));
  STEP(3, onstack_session_stats(session, &stats) == 0 && !stats.running);
  t_burn(0.03); /* no timer was inherited: over SIG_DFL a tick would kill */
  STEP(4, onstack_session_stop(session) == ONSTACK_E_STOPPED);
  STEP(5, onstack_session_poll(session, 0) == ONSTACK_E_STOPPED);
  STEP(6, onstack_session_free(session) == 0);
  int step = own_session();
  STEP(step, step == 0);
  STEP(7, raw_handler(SIGPROF) == found);
  _exit(0);
}

static void forks_over(void (*found)(int), onstack_switch threads) {
  signal(SIGPROF, found);
  onstack_options options = t_options(500, NULL, NULL);
  options.threads = threads;
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  uint64_t before = t_stats(session).ticks;
  int child = fork();
  if (child == 0) in_child_of(session, (uint64_t)(uintptr_t)found);
  int status = t_wait(child);
  cr_assert_eq(status, 0, "the child failed at step %d", status);
  t_burn(0.2);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.ticks, before + 50, "the parent goes on");
}
Test(fork, the_child_is_clean_and_the_parent_goes_on) { forks_over(SIG_DFL, ONSTACK_ON); }
Test(fork, over_ignore) { forks_over(SIG_IGN, ONSTACK_ON); }
Test(fork, over_a_handler_and_without_threads) { forks_over(plain_handler, ONSTACK_OFF); }

Test(fork, the_child_of_a_child_may_start_again) {
  onstack_session *session = t_start(NULL);
  int child = fork();
  if (child == 0) {
    t_deadline(30);
    onstack_session *own = NULL;
    STEP(1, onstack_session_start(NULL, &own) == 0);
    int grandchild = fork();
    if (grandchild == 0) in_child_of(own, (uint64_t)(uintptr_t)SIG_DFL);
    int status = t_wait(grandchild);
    STEP(status, status == 0);
    STEP(2, onstack_session_free(own) == 0);
    STEP(3, onstack_session_free(session) == 0);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "step %d", status);
  t_finish(session);
}

/* ---- under load, from two threads ---- */

static volatile bool over;
static void *burns(void *unused) {
  while (!over) t_burn(0.005);
  return unused;
}

typedef struct forker {
  pthread_t thread;
  int rounds, own_every;
  int bad; /* status of the first child that failed */
} forker;

static void *forks(void *data) {
  forker *f = data;
  for (int i = 0; i < f->rounds && !f->bad; i++) {
    int child = fork();
    if (child == 0) {
      t_deadline(20);
      STEP(2, raw_handler(SIGPROF) != (uint64_t)(uintptr_t)SIG_IGN);
      STEP(1, raw_handler(SIGPROF) == (uint64_t)(uintptr_t)SIG_DFL);
      int step = f->own_every && i % f->own_every == 0 ? own_session() : 0;
      _exit(step);
    }
    f->bad = t_wait(child);
  }
  return NULL;
}

Test(fork, three_hundred_times_at_1000_hz_from_two_threads) {
  pthread_t burner;
  forker forkers[2] = {{.rounds = 150, .own_every = 15}, {.rounds = 150, .own_every = 15}};
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  pthread_create(&burner, NULL, burns, NULL);
  for (int i = 0; i < 2; i++) pthread_create(&forkers[i].thread, NULL, forks, &forkers[i]);
  for (int i = 0; i < 2; i++) pthread_join(forkers[i].thread, NULL);
  over = true;
  pthread_join(burner, NULL);
  for (int i = 0; i < 2; i++) cr_assert_eq(forkers[i].bad, 0, "a child ended with %d", forkers[i].bad);
  cr_assert_gt(t_finish(session).ticks, 100);
}

/* The child must find the default action also when the fork falls into a start or a stop. The kernel copies the signal
   actions before the memory, so the two may tell different stories there. */
Test(fork, during_starts_and_stops) {
  forker f = {.rounds = 700 * (int)t_repeat()};
  uint64_t rounds = 0;
  pthread_create(&f.thread, NULL, forks, &f);
  onstack_options options = t_options(1000, NULL, NULL);
  options.threads = ONSTACK_OFF;
  options.unwinder = "pc_only";
  while (!f.bad && pthread_tryjoin_np(f.thread, NULL) != 0) {
    onstack_session *session = t_start(&options);
    cr_assert_eq(onstack_session_free(session), 0);
    rounds++;
  }
  cr_assert_eq(f.bad, 0, "a child ended with %d: 1: our handler was left in it, 2: SIG_IGN", f.bad);
  cr_assert_gt(rounds, 100);
}

/* ---- a sink that forks ---- */

typedef struct forking_sink {
  int calls, status;
  bool returns; /* in the child too */
  volatile int in_child;
  int child;
} forking_sink;

static int sink_forks(void *data, const onstack_sample *sample) {
  forking_sink *sink = data;
  (void)sample;
  if (sink->calls++ != 2) return 0;
  int child = fork();
  if (child == 0) {
    t_deadline(20);
    sink->in_child = 1;
    if (sink->returns) return 0;
    STEP(1, raw_handler(SIGPROF) == (uint64_t)(uintptr_t)SIG_DFL);
    /* The only thread of this child is the drain thread, which blocks every signal. */
    onstack_kernel_sigset none = 0;
    onstack_sys_sigprocmask(SIG_SETMASK, &none, NULL);
    int step = own_session();
    _exit(step);
  }
  sink->child = child;
  if (!sink->returns) sink->status = t_wait(child);
  return 0;
}

Test(fork, from_a_sink_on_the_drain_thread) {
  forking_sink sink = {.status = -1};
  onstack_options options = t_options(500, sink_forks, &sink);
  onstack_session *session = t_start(&options);
  t_burn(0.3);
  t_finish(session);
  cr_assert_eq(sink.status, 0, "the child ended with %d", sink.status);
  cr_assert_gt(sink.calls, 10, "the parent's sink goes on");
}

Test(fork, from_a_sink_in_poll_that_returns_in_the_child) {
  forking_sink sink = {.status = -1, .returns = true};
  onstack_options options = t_options(500, sink_forks, &sink);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  int polled = onstack_session_poll(session, 0);
  if (sink.in_child) {
    STEP(1, sink.calls == 3); /* no sample of the parent's is handed over in the child */
    int step = own_session(); /* takes the slot that the poll had been emptying */
    STEP(step, step == 0);
    STEP(2, child_samples > 2);
    STEP(3, onstack_session_free(session) == 0);
    _exit(0);
  }
  cr_assert_gt(polled, 3);
  int status = t_wait(sink.child);
  cr_assert_eq(status, 0, "the child ended with %d", status);
  t_finish(session);
}

/* ---- other ways to make a process ---- */

static const char *const true_argv[] = {"true", NULL};

Test(fork, system_spawn_and_vfork_work) {
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  pthread_t burner;
  pthread_create(&burner, NULL, burns, NULL);
  for (int i = 0; i < 25; i++) {
    pid_t pid;
    cr_assert_eq(system("exit 7"), 7 << 8);
    cr_assert_eq(posix_spawnp(&pid, "true", NULL, NULL, (char *const *)(uintptr_t)true_argv, environ), 0);
    cr_assert_eq(t_wait(pid), 0);
    pid = vfork();
    if (pid == 0) {
      execvp("true", (char *const *)(uintptr_t)true_argv);
      _exit(99);
    }
    cr_assert_eq(t_wait(pid), 0, "a pending tick must not kill a program that has no handler");
  }
  FILE *pipe = popen("echo through a pipe", "r");
  char line[64] = "";
  cr_assert_not_null(fgets(line, sizeof(line), pipe));
  cr_assert_str_eq(line, "through a pipe\n");
  cr_assert_eq(pclose(pipe), 0);
  t_burn(0.2);
  over = true;
  pthread_join(burner, NULL);
  cr_assert_gt(t_finish(session).ticks, 50);
}

/* Prepare handlers run in the opposite order of their registration: one from before our first start runs after ours. */
static volatile uint64_t mask_in_fork;
static void look_at_mask(void) {
  onstack_kernel_sigset mask = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &mask);
  mask_in_fork = mask;
}

Test(fork, the_signal_is_blocked_meanwhile_and_only_meanwhile) {
  onstack_kernel_sigset before = ONSTACK_SIGBIT(SIGUSR2), after = 0;
  pthread_atfork(look_at_mask, NULL, NULL);
  onstack_session *session = t_start(NULL);
  onstack_sys_sigprocmask(SIG_SETMASK, &before, NULL);
  int child = fork();
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &after);
  if (child == 0) _exit(after == before ? 0 : 1);
  cr_assert_eq(t_wait(child), 0, "the child has the mask of before");
  cr_assert_eq(after, before, "and the parent");
  cr_assert(mask_in_fork & ONSTACK_SIGBIT(SIGPROF));
  t_finish(session);
}

/* gperftools#335: a tick interrupts clone() of a large process again and again. The signal is blocked meanwhile. */
Test(fork, of_a_large_process_at_a_high_rate) {
  size_t bytes = (size_t)256 << 20;
  char *memory = malloc(bytes);
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  onstack_options options = t_options(10000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_deadline(20);
  for (int i = 0; i < 5; i++) {
    int child = fork();
    if (child == 0) _exit(memory[4096 * i] == 1 ? 0 : 1);
    cr_assert_eq(t_wait(child), 0);
  }
  t_finish(session);
  free(memory);
}

/*
 * fork() in a signal handler that interrupts fork(), behind our prepare handler: those that are registered first run last.
 */
static int forks_to_nest;
static pid_t nested = -1;

static void fork_within(int signal) {
  (void)signal;
  nested = fork();
}

static void interrupt_fork(void) {
  if (forks_to_nest-- == 1) raise(SIGUSR1);
}

static bool is_blocked(int signal) {
  onstack_kernel_sigset mask = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &mask);
  return (mask & ONSTACK_SIGBIT(signal)) != 0;
}

/* In the process that has just come out of the outer fork: of its own, and of the children that it has. */
static int after_nested_fork(pid_t outer) {
  if (is_blocked(SIGPROF)) return 1;
  int own = outer == 0 || nested == 0 ? own_session() : 0;
  if (own != 0) return own;
  if (outer > 0 && (own = t_wait(outer)) != 0) return own;
  return nested > 0 && outer > 0 ? t_wait(nested) : 0;
}

Test(fork, a_fork_that_interrupts_a_fork_leaves_the_signal_as_it_was) {
  cr_assert_eq(pthread_atfork(interrupt_fork, NULL, NULL), 0);
  signal(SIGUSR1, fork_within);
  onstack_options options = t_options(500, NULL, NULL);
  onstack_session *session = t_start(&options);
  const pid_t parent = getpid();
  for (unsigned round = 0; round < 3; round++) {
    forks_to_nest = 1;
    nested = -1;
    pid_t outer = fork();
    cr_assert_geq(outer, 0);
    int step = after_nested_fork(outer);
    if (getpid() != parent) _exit(step);
    cr_assert_geq(nested, 1);
    cr_assert_eq(step, 0, "step %d", step);
  }
  t_finish(session);
}

/* Walks on demand that other threads are in the middle of: while one is under way, tables that are not used any more stay. */
Test(fork, a_walk_of_another_thread_is_none_in_the_child) {
  onstack_session *session = t_start(NULL);
  onstack_dekker_add(&onstack_traceback.inside, 1u);
  pid_t child = fork();
  if (child == 0) {
    STEP(1, !onstack_traceback_is_busy());
    STEP(2, own_session() == 0);
    _exit(0);
  }
  cr_assert_eq(t_wait(child), 0);
  cr_assert(onstack_traceback_is_busy());
  onstack_dekker_sub(&onstack_traceback.inside, 1u);
  t_finish(session);
}

/* A preparation that another thread is in the middle of, seen by a process 1 whose parent is process 1 as well. */
static int prepare_first(void) {
  if (onstack_traceback_prepare() != 0 || !onstack_traceback.ready) return 70;
  onstack_store_relaxed(&onstack_traceback.preparing, (int32_t)getpid());
  pid_t child = (pid_t)onstack_sys_call6(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0, 0);
  if (child == 0) {
    onstack_store_relaxed(&onstack_traceback.stale, 1u);
    STEP(71, getpid() == 1 && onstack_traceback_prepare() == 0);
    STEP(72, onstack_traceback_is_stale() == 0);
    _exit(0);
  }
  return t_wait(child);
}

Test(fork, a_preparation_of_another_thread_is_none_in_a_child_with_the_same_id) { t_in_pid_namespace(prepare_first); }

/* A thread of the parent may be on its way into a session that is over, at the instant of the fork. */
Test(fork, a_thread_that_came_too_late_keeps_no_stop_of_the_child_waiting) {
  onstack_options options = t_options(100, NULL, NULL);
  t_finish(t_start(&options));
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_inside_enter(&onstack_slots[0].visits, tid);
  const pid_t child = fork();
  if (child == 0) {
    onstack_session *session;
    t_deadline(10);
    if (onstack_session_start(&options, &session) != 0) _exit(1);
    _exit(onstack_session_free(session) == 0 ? 0 : 2);
  }
  onstack_inside_leave(&onstack_slots[0].visits, tid);
  cr_assert_eq(t_wait(child), 0);
}
