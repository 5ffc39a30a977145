/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Over SIG_DFL a tick that is still pending at stop would end the process ("Profiling timer expired"). */
#include "support.h"

#include <sys/resource.h>
#include <unistd.h>

TestSuite(default_action, .init = t_setup);

static volatile bool over;
static void *burn_until_over(void *unused) {
  (void)unused;
  while (!over) t_burn(0.005);
  return NULL;
}

Test(default_action, a_thousand_starts_and_stops_under_load) {
  pthread_t threads[3];
  onstack_options options = t_options(10000, NULL, NULL);
  options.threads = ONSTACK_OFF; /* quicker rounds: no thread to make and join */
  uint64_t ticks = 0;
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, burn_until_over, NULL);
  for (int i = 0; i < 1000; i++) {
    onstack_session *session = t_start(&options);
    if (i % 3 == 0) t_burn(0.001);
    if (i % 97 == 0) t_sleep(0.02);
    ticks += t_finish(session).ticks;
    cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
  }
  over = true;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  cr_assert_gt(ticks, 300, "%lu ticks: the rounds were too short to show anything", ticks);
}

/* A thread that blocks the signal collects pending ticks and unblocks it only after stop. */
Test(default_action, ticks_that_are_pending_at_stop_are_gone_after_it) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  for (int i = 0; i < 20; i++) {
    onstack_options options = t_options(1000, NULL, NULL);
    onstack_session *session = t_start(&options);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    t_burn(0.02);
    sigset_t pending;
    sigpending(&pending);
    cr_assert(sigismember(&pending, SIGPROF), "a tick must be waiting for this test to mean anything");
    t_finish(session);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  }
}

/* Starts and stops from several threads at once, sessions overlapping in every way. */
static void *start_and_stop(void *rounds) {
  for (int i = 0; i < *(int *)rounds; i++) {
    onstack_options options = t_options(1000, NULL, NULL);
    onstack_session *session = NULL;
    int result = onstack_session_start(&options, &session);
    if (result != 0) return (void *)(intptr_t)result;
    t_burn(0.002);
    if ((result = onstack_session_free(session)) != 0) return (void *)(intptr_t)result;
  }
  return NULL;
}

Test(default_action, overlapping_sessions_of_six_threads) {
  pthread_t threads[6];
  int rounds = 60;
  for (int i = 0; i < 6; i++) pthread_create(&threads[i], NULL, start_and_stop, &rounds);
  for (int i = 0; i < 6; i++) {
    void *result;
    pthread_join(threads[i], &result);
    cr_assert_null(result, "%ld", (long)(intptr_t)result);
  }
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
}
