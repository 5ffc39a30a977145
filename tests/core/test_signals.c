/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Other signals than SIGPROF, in a host that has uses of its own for them: each of its signals reaches it once. */
#include "support.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

TestSuite(signals, .init = t_setup);

static onstack_session *start_on(int signal, uint32_t frequency) {
  onstack_options options = t_options(frequency, NULL, NULL);
  options.signal = signal;
  return t_start(&options);
}

static atomic_int owner_calls, owner_last, owner_disorder;
static void owner(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  int value = info->si_value.sival_int;
  if (info->si_code == SI_QUEUE && value != atomic_exchange(&owner_last, value) + 1) atomic_fetch_add(&owner_disorder, 1);
  atomic_fetch_add(&owner_calls, 1);
}

static void own(int signal) {
  struct sigaction action = {.sa_sigaction = owner, .sa_flags = SA_SIGINFO | SA_RESTART};
  atomic_store(&owner_calls, 0);
  cr_assert_eq(sigaction(signal, &action, NULL), 0);
}

/* Until the owner has been called so often; the deadline is the suite's. */
static void burn_until_called(int calls) {
  while (atomic_load(&owner_calls) < calls) t_burn(0.002);
}

/* ---- timers of the host ---- */

Test(signals, an_interval_timer_of_the_host_goes_on) {
  const struct itimerval each = {{0, 8000}, {0, 8000}}, never = {{0, 0}, {0, 0}};
  own(SIGVTALRM);
  onstack_session *session = start_on(SIGVTALRM, 500);
  cr_assert_eq(setitimer(ITIMER_VIRTUAL, &each, NULL), 0);
  burn_until_called(30);
  setitimer(ITIMER_VIRTUAL, &never, NULL);
  t_burn(0.02);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(stats.forwarded, atomic_load(&owner_calls), "%lu, %d", stats.forwarded, atomic_load(&owner_calls));
  cr_assert_gt(stats.ticks, 30, "and ours are ours");
}

/* SI_TIMER as ours, with a value of its own. */
Test(signals, a_posix_timer_of_the_host_goes_on) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  const struct itimerspec each = {{0, 7000000}, {0, 7000000}}, never = {{0, 0}, {0, 0}};
  timer_t timer;
  t_deadline(0); /* SIGALRM is the host's here; ci/test.sh has a timeout */
  own(SIGALRM);
  onstack_session *session = start_on(SIGALRM, 500);
  cr_assert_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  cr_assert_eq(timer_settime(timer, 0, &each, NULL), 0);
  burn_until_called(30);
  timer_settime(timer, 0, &never, NULL);
  t_burn(0.02);
  onstack_stats stats = t_finish(session);
  timer_delete(timer);
  cr_assert_eq(stats.forwarded_timer, atomic_load(&owner_calls));
  cr_assert_eq(stats.forwarded, stats.forwarded_timer);
  cr_assert_gt(stats.ticks, 30);
}

/* ---- signals that are sent ---- */

static atomic_bool over;
static void *burn_until_over(void *unused) {
  while (!atomic_load(&over)) t_burn(0.005);
  return unused;
}

/* Real-time signals queue: each one arrives, with its value, in the order in which they were sent. */
Test(signals, real_time_signals_of_the_host_stay_in_order) {
  const int signal = SIGRTMIN + 3, count = 2000;
  pthread_t thread;
  own(signal);
  onstack_session *session = start_on(signal, 1000);
  pthread_create(&thread, NULL, burn_until_over, NULL);
  for (int i = 1; i <= count; i++) {
    const union sigval value = {.sival_int = i};
    while (pthread_sigqueue(thread, signal, value) == EAGAIN) t_sleep(0.001); /* others' signals count in the limit */
    if (i % 50 == 0) t_burn(0.002);
  }
  burn_until_called(count);
  while (t_stats(session).ticks < 100) t_burn(0.01);
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(atomic_load(&owner_calls), count);
  cr_assert_eq(stats.forwarded, count);
  cr_assert_eq(atomic_load(&owner_disorder), 0);
}

/* A tick that waits in a thread does not take the place of the host's signal: that holds from SIGRTMIN on. */
Test(signals, a_blocked_real_time_signal_is_kept_beside_a_pending_tick) {
  const int signal = SIGRTMIN + 4;
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, signal);
  own(signal);
  onstack_session *session = start_on(signal, 1000);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  do t_burn(0.005);
  while (sigpending(&pending) != 0 || !sigismember(&pending, signal));
  for (int i = 1; i <= 5; i++) pthread_sigqueue(pthread_self(), signal, (union sigval){.sival_int = i});
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  cr_assert_eq(atomic_load(&owner_calls), 5);
  cr_assert_eq(atomic_load(&owner_disorder), 0);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(stats.forwarded, 5);
  cr_assert_gt(stats.ticks, 0);
}

/* Starts and stops have no moment in which a found handler's signal is lost. A real-time one: others would merge with a
   tick that waits. */
static void *send_each_after_the_last(void *target) {
  for (int i = 0; !atomic_load(&over); i++) {
    pthread_kill(*(pthread_t *)target, SIGRTMIN + 5);
    while (atomic_load(&owner_calls) <= i) t_sleep(0.0002); /* one that is lost: until the suite's deadline */
  }
  return NULL;
}

Test(signals, none_is_lost_over_starts_and_stops) {
  const int signal = SIGRTMIN + 5;
  pthread_t burner, sender, self = pthread_self();
  own(signal);
  struct onstack_kernel_sigaction before = t_action(signal);
  pthread_create(&burner, NULL, burn_until_over, NULL);
  pthread_create(&sender, NULL, send_each_after_the_last, &self);
  for (unsigned i = 0; i < 50 * t_repeat(); i++) {
    onstack_session *session = start_on(signal, 1000);
    t_sleep(0.002);
    t_finish(session);
  }
  burn_until_called(atomic_load(&owner_calls) + 10);
  atomic_store(&over, true);
  pthread_join(sender, NULL);
  pthread_join(burner, NULL);
  struct onstack_kernel_sigaction after = t_action(signal);
  cr_assert(t_same_action(&before, &after));
}

/* Two signals in one process: each has its own action, and neither session sees the other's ticks. */
Test(signals, sessions_on_different_signals_do_not_meet) {
  struct onstack_kernel_sigaction before = t_action(SIGRTMAX);
  t_collector *first = t_collector_new(), *second = t_collector_new();
  onstack_options options = t_options(200, t_collect, first);
  onstack_session *prof = t_start(&options);
  options.signal = SIGRTMAX;
  options.sink_data = second;
  onstack_session *last = t_start(&options);
  double burned = t_thread_cpu();
  t_burn(0.5);
  burned = t_thread_cpu() - burned;
  onstack_stats stats = t_finish(last);
  cr_assert_eq(stats.forwarded + stats.swallowed + stats.late, 0);
  struct onstack_kernel_sigaction after = t_action(SIGRTMAX);
  cr_assert(t_same_action(&before, &after));
  t_finish(prof);
  t_near(t_seconds_of(first, onstack_sys_gettid()), burned, 0.12, "SIGPROF");
  t_near(t_seconds_of(second, onstack_sys_gettid()), burned, 0.12, "SIGRTMAX");
}

/* ---- a runtime that comes later ---- */

/* Go does so to every action that it finds when it is loaded (runtime/os_linux.go, setsigstack); without the flag our
   frames lie on goroutines' stacks. */
Test(signals, the_alternate_stack_is_never_taken_back) {
  struct sigaction action;
  onstack_options options = t_options(100, NULL, NULL);
  options.on_stack = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  cr_assert_eq(t_action(SIGPROF).flags & SA_ONSTACK, 0);
  cr_assert_eq(sigaction(SIGPROF, NULL, &action), 0);
  action.sa_flags |= SA_ONSTACK;
  action.sa_flags |= SA_NODEFER; /* what else was changed is ours to repair, and shows that we have looked */
  cr_assert_eq(sigaction(SIGPROF, &action, NULL), 0);
  while (t_action(SIGPROF).flags & SA_NODEFER) t_burn(0.002);
  cr_assert_neq(t_action(SIGPROF).flags & SA_ONSTACK, 0);
  t_finish(session);
}
