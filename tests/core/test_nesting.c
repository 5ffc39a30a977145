/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The handler that is installed open for its own signal closes it by itself: for as long as it runs, and no longer. */
#include "handler/signal/nesting.h"
#include "support.h"

TestSuite(nesting, .init = t_setup);

static struct sigaction below;
static volatile int first_calls, blocked_below, blocked_before, blocked_after;

static bool is_blocked(void) {
  sigset_t mask;
  cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
  return sigismember(&mask, SIGPROF);
}

static void first(int signal) {
  (void)signal;
  first_calls++;
  blocked_below = is_blocked();
}

static void chains(int signal, siginfo_t *info, void *context) {
  blocked_before = is_blocked();
  below.sa_sigaction(signal, info, context);
  blocked_after = is_blocked();
}

/* Nobody looks, so an owner that comes stays on top and calls ours. */
static onstack_session *start_open(void) {
  struct sigaction host = {.sa_handler = first, .sa_flags = SA_RESTART};
  cr_assert_eq(sigaction(SIGPROF, &host, NULL), 0);
  onstack_options options = t_options(10, NULL, NULL);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  onstack_nesting_state.watch = onstack_nesting_state.open = 1; /* as in a program of Go */
  return session;
}

static void is_chained(int flags, bool open) {
  onstack_session *session = start_open();
  struct sigaction owner = {.sa_sigaction = chains, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
  cr_assert_eq(sigaction(SIGPROF, &owner, &below), 0);
  raise(SIGPROF);
  cr_assert_eq(first_calls, 1);
  cr_assert(blocked_below, "the first owner has not asked for more signals of its kind");
  cr_assert_neq(blocked_before, open);
  cr_assert_neq(blocked_after, open, "the owner's mask has been changed by the handler that it called");
  cr_assert_eq(sigaction(SIGPROF, &below, NULL), 0);
  t_finish(session);
}

Test(nesting, an_owner_that_calls_it_with_the_signal_open_has_it_open_afterwards) { is_chained(SA_NODEFER, true); }
Test(nesting, an_owner_that_calls_it_with_the_signal_blocked_has_it_blocked_afterwards) { is_chained(0, false); }
