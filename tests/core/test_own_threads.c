/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The library's own threads: what falls due on them does not wake the host, and no handler of the host's runs there. */
#include "support.h"

#include "sampler/api/options.h"
#include "sampler/source/discovery.h"
#include "sampler/source/threads.h"
#include "sampler/signal/own_threads.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

TestSuite(own_threads, .init = t_setup);

#define SESSIONS 6

static int32_t seen_on_own;
static uint32_t seen;
static void host_handler(int signal) {
  (void)signal;
  __atomic_add_fetch(&seen, 1u, __ATOMIC_RELAXED);
  if (onstack_own_is(onstack_sys_gettid())) __atomic_add_fetch(&seen_on_own, 1, __ATOMIC_RELAXED);
}

/* A thread that plays one of the library's at work. */
static uint32_t working; /* 1: asked for, 2: it is known as one of them, 0: it is to end */
static void *own_work(void *data) {
  sigset_t every;
  (void)data;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, NULL);
  onstack_own_enter();
  __atomic_store_n(&working, 2u, __ATOMIC_RELEASE);
  while (__atomic_load_n(&working, __ATOMIC_RELAXED)) {
    onstack_own_open(SIGPROF);
    t_burn(0.02);
    onstack_own_close();
    t_sleep(0.02);
  }
  onstack_own_leave();
  return NULL;
}

/* How often a process that sleeps for a second is woken early. Above a handler of the host's its signal stays blocked. */
static int early_polls(bool blocked) {
  onstack_options options = t_options(1000, NULL, NULL);
  pthread_t thread;
  int early = 0;
  signal(SIGPROF, blocked ? host_handler : SIG_DFL);
  working = 1;
  pthread_create(&thread, NULL, own_work, NULL);
  while (__atomic_load_n(&working, __ATOMIC_ACQUIRE) != 2) t_sleep(0.001); /* or the session would arm it */
  onstack_session *session = t_start(&options);
  for (double end = t_now() + 1; t_now() < end;) early += poll(NULL, 0, 50) < 0 && errno == EINTR;
  t_finish(session);
  __atomic_store_n(&working, 0u, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  return early;
}

Test(own_threads, their_work_does_not_wake_a_host_that_sleeps) {
  if (!onstack_discovery_meets_all()) cr_skip("before Linux 6.4 the kernel gives process ticks to the main thread");
  int open = 0, blocked = 0;
  while (blocked < 40) { /* in turn, so that what else runs on the machine is the same for both */
    open += early_polls(false);
    blocked += early_polls(true);
  }
  cr_log_info("%d early polls, %d with the signal blocked", open, blocked);
  cr_assert_lt(open * 4, blocked, "%d polls ended early, %d with the signal blocked", open, blocked);
}

static bool somebody_has_it_open(void) {
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++)
    if (__atomic_load_n(&onstack_own_threads[i].open, __ATOMIC_RELAXED) == SIGPROF) return true;
  return false;
}

Test(own_threads, the_drain_thread_leaves_it_open_while_it_works) {
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  while (!somebody_has_it_open())
    continue; /* our burning makes it look each 10 ms; the alarm ends a test that waits in vain */
  t_finish(session);
}

static uint32_t open_in_sink, in_sink;
static int asks_for_the_mask(void *data, const onstack_sample *sample) {
  sigset_t mask;
  (void)data;
  (void)sample;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  in_sink++;
  open_in_sink += !sigismember(&mask, SIGPROF);
  return 0;
}

Test(own_threads, a_sink_of_the_hosts_runs_with_it_blocked) {
  onstack_options options = t_options(500, asks_for_the_mask, NULL);
  onstack_session *session = t_start(&options);
  t_burn(0.5);
  t_finish(session);
  cr_assert_gt(in_sink, 0u);
  cr_assert_eq(open_in_sink, 0u, "%u of %u calls", open_in_sink, in_sink);
}

/* Ticks of the host's own that fall due on our threads, over sessions that come and go. */
Test(own_threads, a_handler_that_was_there_never_runs_on_them) {
  struct sigaction action = {.sa_handler = host_handler, .sa_flags = SA_RESTART};
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGPROF, &action, NULL);
  setitimer(ITIMER_PROF, &often, NULL);
  for (unsigned i = 0; i < 40 * t_repeat(); i++) {
    onstack_session *sessions[SESSIONS];
    onstack_options options = t_options(1000, NULL, NULL);
    for (int s = 0; s < SESSIONS; s++) sessions[s] = t_start(&options);
    t_sleep(0.02);
    t_burn(0.002);
    for (int s = 0; s < SESSIONS; s++) t_finish(sessions[s]);
  }
  setitimer(ITIMER_PROF, &never, NULL);
  cr_assert_gt(seen, 0u);
  cr_assert_eq(seen_on_own, 0, "%d of %u signals", seen_on_own, seen);
  signal(SIGPROF, SIG_IGN);
}

/* Open while the library has the signal alone; closed before it gives the action back. */
Test(own_threads, open_only_while_nobody_else_has_the_signal) {
  onstack_own_thread *own = &onstack_own_threads[ONSTACK_OWN_THREADS - 1];
  own->tid = onstack_sys_gettid(); /* this thread plays one of ours */
  onstack_own_open(SIGPROF);
  cr_assert_eq(own->open, 0, "open without a session");
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  onstack_own_open(SIGPROF);
  cr_assert_eq(own->open, SIGPROF);
  t_finish(session); /* which must not wait for its own thread */
  cr_assert_eq(own->open, 0, "still open after the stop");
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  cr_assert(sigismember(&mask, SIGPROF));
  signal(SIGPROF, host_handler);
  session = t_start(&options);
  onstack_own_open(SIGPROF);
  cr_assert_eq(own->open, 0, "open above a handler of the host's");
  own->tid = 0;
  t_finish(session);
  signal(SIGPROF, SIG_IGN);
}

Test(own_threads, a_stop_waits_for_threads_that_have_it_open) {
  onstack_own_thread *own = &onstack_own_threads[ONSTACK_OWN_THREADS - 1];
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  own->tid = 1; /* some thread that never closes it: the stop comes back all the same */
  own->open = SIGPROF;
  double begun = t_now();
  t_finish(session);
  cr_assert_geq(t_now() - begun, 0.05, "the stop did not wait");
  own->open = own->tid = 0;
}
