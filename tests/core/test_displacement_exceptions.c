/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What cannot be "the exact action is put back, and nobody is disturbed": each exception of docs/SIGNALS.md, shown.
 */
#include "support.h"

#include <unistd.h>

TestSuite(exceptions, .init = t_setup);

static volatile int base_calls;
static void base_handler(int signal) {
  (void)signal;
  base_calls++;
}
static void newer_handler(int signal) { (void)signal; }

/*
 * An owner from before us that blindly restores SIG_DFL while our timers run: the next tick kills, unless it comes after
 * we have reinstalled on top. Without our drain thread and without a poll there is no look, so it is certain here.
 */
Test(exceptions, a_blind_sig_dfl_under_live_timers_kills) {
  int child = fork();
  if (child == 0) {
    onstack_options options;
    onstack_session *session;
    t_deadline(20);
    onstack_options_init(&options, sizeof(options));
    options.threads = ONSTACK_OFF;
    options.frequency = 1000;
    if (onstack_session_start(&options, &session) != 0) _exit(1);
    signal(SIGPROF, SIG_DFL);
    t_burn(2);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 1000 + SIGPROF, "the child ended with %d", status);
}

/* An owner that found us, outlives us and puts our pointer back: the pass-through stays, and serves the first owner. */
Test(exceptions, our_pointer_put_back_after_our_stop_stays_as_a_pass_through) {
  struct sigaction newer = {.sa_handler = newer_handler}, found;
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  struct onstack_kernel_sigaction ours = t_action(SIGPROF);
  cr_assert_eq(sigaction(SIGPROF, &newer, &found), 0);
  t_finish(session);
  cr_assert_eq(sigaction(SIGPROF, &found, NULL), 0);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert_eq(after.handler, ours.handler, "no session runs, but it is ours");
  cr_assert_neq(after.handler, before.handler);
  for (int i = 1; i <= 5; i++) {
    raise(SIGPROF);
    cr_assert_eq(base_calls, i);
  }
  t_finish(t_start(NULL)); /* the next stop ends the exception */
  after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}

/* After a newer owner's visit over SIG_DFL its late ticks would kill: what is left is SIG_IGN, and the next start and
   stop leave that alone. */
Test(exceptions, after_a_visit_over_sig_dfl_sig_ign_is_left) {
  struct sigaction newer = {.sa_handler = newer_handler}, found;
  onstack_session *session = t_start(NULL);
  struct onstack_kernel_sigaction ours = t_action(SIGPROF);
  cr_assert_eq(sigaction(SIGPROF, &newer, &found), 0);
  double end = t_now() + 10;
  while (t_action(SIGPROF).handler - ours.handler + 64 > 128 && t_now() < end) t_burn(0.005);
  cr_assert_eq(sigaction(SIGPROF, &found, NULL), 0);
  t_finish(session);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
  raise(SIGPROF);
  t_finish(t_start(NULL));
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
}

/* ---- bad input ---- */

/* Our own handler as the previous action, with flags and mask of somebody else's: never forwarded to itself. */
Test(exceptions, a_saved_action_that_is_our_own_handler_is_no_level) {
  signal(SIGPROF, base_handler);
  onstack_session *session = t_start(NULL);
  struct onstack_kernel_sigaction ours = t_action(SIGPROF);
  t_finish(session);
  ours.flags |= SA_NODEFER | SA_RESETHAND;
  ours.mask = 0;
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &ours, NULL), 0);
  session = t_start(NULL);
  for (int i = 0; i < 5; i++) raise(SIGPROF);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(base_calls, 5);
  cr_assert_eq(stats.looped, 0);
}

/* A thread that blocks the signal: one signal waits for each timer, however long, and comes once with its overruns. */
Test(exceptions, ticks_of_a_thread_that_blocks_the_signal_do_not_pile_up) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  t_burn(0.6);
  onstack_stats before = t_stats(session);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  onstack_stats after = t_stats(session);
  cr_assert_leq(after.samples - before.samples, 3, "a burst of %lu samples", after.samples - before.samples);
  cr_assert_leq(after.recorded - before.recorded, 260, "of %lu ticks", after.recorded - before.recorded);
  cr_assert_geq(after.unattributed - before.unattributed, 200, "the rest belongs to no stack, counted");
  t_finish(session);
}
