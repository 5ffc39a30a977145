/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Three copies of the library in one process (a Rust crate's, a Go package's and a preload's would be such), in every
 * order of start and stop. The owner that was there first gets every foreign signal once and no tick of any copy; each
 * running copy gets its own; and when all have stopped, that owner's action is back as it was.
 */
#include "copies.h"
#include "sampler/signal/owners.h"
#include "support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(copies, .init = t_setup);

static volatile int owner_calls, owner_timer_ticks;

static void owner(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  owner_calls += info->si_code == SI_TKILL;
  owner_timer_ticks += info->si_code == SI_TIMER; /* nobody but the copies has such timers here */
}

static void install_owner(void) {
  struct sigaction first = {.sa_sigaction = owner, .sa_flags = SA_SIGINFO | SA_RESTART};
  cr_assert_eq(sigaction(SIGPROF, &first, NULL), 0);
}

/* Starts a copy that rests, stops one that runs. */
static void step(t_copy *of) {
  if (!of->session) {
    onstack_options options;
    of->init(&options, sizeof(options));
    options.frequency = 1000;
    cr_assert_eq(of->start(&options, &of->session), 0);
    return;
  }
  cr_assert_eq(of->stop(of->session), 0);
  cr_assert_eq(t_copy_stats(of).looped, 0, "a foreign signal went in a circle");
  cr_assert_eq(of->release(of->session), 0);
  of->session = NULL;
}

/* All that run have ticks that they had not `before`. */
static bool all_tick(const uint64_t *before) {
  for (int i = 0; i < T_COPIES; i++)
    if (t_copies[i].session && t_copy_stats(&t_copies[i]).ticks == before[i]) return false;
  return true;
}

/* Who runs has ticks; the owner has each foreign signal once, and none of the copies' ticks. */
static void look(const char *order) {
  uint64_t before[T_COPIES] = {0};
  for (int i = 0; i < T_COPIES; i++)
    if (t_copies[i].session) before[i] = t_copy_stats(&t_copies[i]).ticks;
  int calls = owner_calls;
  raise(SIGPROF);
  cr_assert_eq(owner_calls, calls + 1, "%s: the owner has the signal %d times", order, owner_calls - calls);
  /* The kernel looks at timers 250 times a second, and one look may be the process tick of a copy. */
  for (int i = 0; i < 100 && !all_tick(before); i++) t_burn(0.002);
  cr_assert(all_tick(before), "%s: a running copy has no ticks", order);
  cr_assert_eq(owner_timer_ticks, 0, "%s: the owner has ticks of a copy", order);
}

/* Every way in which all copies start and stop once, beginning with the `done` steps of `order`. */
static int every_order(int *order, int done, void (*run)(const int *)) {
  int orders = 0;
  if (done == 2 * T_COPIES) {
    run(order);
    return 1;
  }
  for (int i = 0; i < T_COPIES; i++) {
    int taken = 0;
    for (int k = 0; k < done; k++) taken += order[k] == i;
    if (taken == 2) continue;
    order[done] = i;
    orders += every_order(order, done + 1, run);
  }
  return orders;
}

static void run_order(const int *order) {
  char text[2 * T_COPIES + 1] = "";
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  for (int i = 0; i < 2 * T_COPIES; i++) {
    text[i] = (char)('0' + order[i]);
    step(&t_copies[order[i]]);
    look(text);
  }
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after), "%s: the owner's action is not back", text);
}

Test(copies, every_order_of_three) {
  int order[2 * T_COPIES];
  install_owner();
  t_copies_open(false);
  cr_assert_eq(every_order(order, 0, run_order), 90);
}

Test(copies, a_child_of_a_fork_has_the_owners_action) {
  install_owner();
  t_copies_open(false);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  for (int i = 0; i < T_COPIES; i++) step(&t_copies[i]);
  step(&t_copies[1]); /* from the middle */
  int child = fork();
  if (child == 0) {
    struct onstack_kernel_sigaction after = t_action(SIGPROF);
    _exit(t_same_action(&before, &after) ? 0 : 1);
  }
  cr_assert_eq(t_wait(child), 0, "another action is there");
  step(&t_copies[0]);
  step(&t_copies[2]);
}

/* Two versions that cannot talk to each other: the later start fails with a reason, and leaves everything as it was. */
static volatile bool churning;

static void *churn(void *which) {
  t_copy *of = which;
  while (churning) {
    onstack_options options;
    onstack_session *session;
    of->init(&options, sizeof(options));
    if (of->start(&options, &session) != 0) continue;
    of->stop(session);
    of->release(session);
  }
  return NULL;
}

/* All copies share the lock of the lowest one, which a thread of the parent holds at the instant of a fork now and then:
   in the child it is nobody's, whichever copy's fork handler runs first. */
Test(copies, a_followed_child_does_not_wait_for_another_copys_lock, .timeout = 120) {
  pthread_t threads[T_COPIES];
  onstack_options options;
  install_owner();
  t_copies_open(false);
  for (int follower = T_COPIES - 1; follower >= 0; follower--) { /* whose fork handlers are the first, then */
    t_copy *of = &t_copies[follower];
    of->init(&options, sizeof(options));
    options.fork = ONSTACK_FORK_FOLLOW;
    cr_assert_eq(of->start(&options, &of->session), 0);
    churning = true;
    for (int i = 0; i < T_COPIES; i++)
      if (i != follower) cr_assert_eq(pthread_create(&threads[i], NULL, churn, &t_copies[i]), 0);
    for (int i = 0; i < 300; i++) {
      int status = -1;
      pid_t child = fork();
      if (child == 0) _exit(0);
      cr_assert_eq(waitpid(child, &status, 0), child);
      cr_assert_eq(status, 0, "fork %d with copy %d followed: %d", i, follower, status);
    }
    churning = false;
    for (int i = 0; i < T_COPIES; i++)
      if (i != follower) pthread_join(threads[i], NULL);
    cr_assert_eq(of->stop(of->session), 0);
    of->release(of->session);
    of->session = NULL;
  }
}

Test(copies, a_copy_of_another_kind_is_refused) {
  onstack_options options;
  install_owner();
  t_copies_open(true);
  for (int first = 0; first < 2; first++) {
    t_copy *later = &t_copies[!first];
    step(&t_copies[first]);
    struct onstack_kernel_sigaction before = t_action(SIGPROF);
    later->init(&options, sizeof(options));
    cr_assert_eq(later->start(&options, &later->session), ONSTACK_E_VERSION);
    struct onstack_kernel_sigaction after = t_action(SIGPROF);
    cr_assert(t_same_action(&before, &after));
    step(&t_copies[first]);
    step(later); /* now it can */
    step(later);
  }
}

/* ---- two copies and an owner that comes and goes ---- */

static volatile int newer_calls;
static struct sigaction below_newer;
static bool newer_chains, newer_is_in;

static void newer(int signal, siginfo_t *info, void *context) {
  newer_calls += info->si_code == SI_TKILL;
  if (newer_chains) below_newer.sa_sigaction(signal, info, context);
}

/* As Go does it: the bare pointer goes back, with flags and mask of its own. */
static void step_newer(void) {
  struct sigaction mine = {.sa_sigaction = newer, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct sigaction back = {.sa_sigaction = below_newer.sa_sigaction, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  sigfillset(&back.sa_mask);
  cr_assert_eq(newer_is_in ? sigaction(SIGPROF, &back, NULL) : sigaction(SIGPROF, &mine, &below_newer), 0);
  newer_is_in = !newer_is_in;
}

/* Who should have a foreign signal has it, once; nobody else. */
static bool goes_where_it_should(void) {
  int first = owner_calls, second = newer_calls;
  raise(SIGPROF);
  return newer_calls - second == newer_is_in && owner_calls - first == (!newer_is_in || newer_chains);
}

static void run_order_with_newer(const int *order) {
  char text[2 * T_COPIES + 1] = "";
  for (int i = 0; i < 2 * T_COPIES; i++) {
    uint64_t before[T_COPIES] = {0};
    text[i] = (char)('0' + order[i]);
    if (order[i] == T_COPIES - 1)
      step_newer();
    else
      step(&t_copies[order[i]]);
    /* Ten milliseconds are promised; on a busy machine it takes longer. */
    for (int k = 0; k < 200 && !goes_where_it_should(); k++) t_burn(0.002);
    cr_assert(goes_where_it_should(), "%s: chaining %d: a signal does not go where it should", text, newer_chains);
    for (int k = 0; k < T_COPIES - 1; k++)
      if (t_copies[k].session) before[k] = t_copy_stats(&t_copies[k]).ticks;
    for (int k = 0; k < 100 && !all_tick(before); k++) t_burn(0.002);
    cr_assert(all_tick(before), "%s: chaining %d: a running copy has no ticks", text, newer_chains);
  }
}

static void every_order_with_newer(bool chains) {
  int order[2 * T_COPIES];
  t_deadline(120);
  newer_chains = chains;
  install_owner();
  t_copies_open(false);
  cr_assert_eq(every_order(order, 0, run_order_with_newer), 90);
}

Test(copies, every_order_of_two_and_an_owner_that_keeps_signals_to_itself) { every_order_with_newer(false); }
Test(copies, every_order_of_two_and_an_owner_that_passes_them_on) { every_order_with_newer(true); }

/* ---- the threads of the copy below ---- */

static void start_quietly(t_copy *of) {
  onstack_options options;
  of->init(&options, sizeof(options));
  options.threads = ONSTACK_OFF; /* who looks is chosen here */
  cr_assert_eq(of->start(&options, &of->session), 0);
}

/* Nobody has the signal, so threads of ours may take it; a newcomer above both copies is seen by the upper one only. */
Test(copies, a_newcomer_above_two_has_no_signals_on_threads_of_the_lower_one) {
  t_copies_open(false);
  start_quietly(&t_copies[0]);
  start_quietly(&t_copies[1]);
  cr_assert(onstack_actions[SIGPROF].undisputed);
  newer_is_in = false;
  step_newer();
  cr_assert_geq(t_copies[1].poll(t_copies[1].session, 0), 0);
  cr_assert_not(onstack_actions[SIGPROF].undisputed);
  for (int i = 1; i >= 0; i--) {
    cr_assert_eq(t_copies[i].stop(t_copies[i].session), 0);
    cr_assert_eq(t_copies[i].release(t_copies[i].session), 0);
  }
}
