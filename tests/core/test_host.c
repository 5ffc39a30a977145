/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a host does beside us must go on: credentials, cancellation, small limits. */
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(host, .init = t_setup);

/* glibc carries out setgid() on every thread by an internal signal and waits for each: a thread of ours that blocks
   that signal would hang the host for ever. */
Test(host, setgid_returns_while_a_session_runs) {
  onstack_session *session = t_start(NULL);
  t_deadline(10);
  setgid(getgid()); /* may be refused; it must come back */
  t_deadline(T_DEADLINE);
  t_finish(session);
}

static onstack_walk_result slow_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                     uint32_t capacity) {
  (void)ucontext;
  (void)capacity;
  __atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
  double end = t_now() + 0.002;
  while (t_now() < end) continue;
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

static void *burn_until_cancelled(void *data) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) (*(volatile unsigned *)data)++;
  return NULL;
}

/* An asynchronous cancellation must not unwind a thread out of our handler: the entry that it had claimed would never
   be published, and stop would wait for it for ever. */
Test(host, asynchronous_cancellation_does_not_cut_the_handler_short) {
  int walks = 0;
  onstack_unwinder slow = {.size = sizeof(slow), .name = "slow", .walk = slow_walk, .data = &walks};
  onstack_options options = t_options(1000, NULL, NULL);
  options.custom_unwinder = &slow;
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 40; i++) {
    unsigned turns = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, burn_until_cancelled, &turns);
    t_sleep(0.02 + 0.0007 * i);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  cr_assert_gt(walks, 40, "too few ticks to show anything");
  t_deadline(10);
  t_finish(session);
}

/* Held back until the session runs, so that each of them exists when start hands out timers. */
typedef struct crowd_thread {
  pthread_t thread;
  pthread_barrier_t *barrier;
  double seconds;
} crowd_thread;

static void *crowd_main(void *data) {
  crowd_thread *self = data;
  pthread_barrier_wait(self->barrier);
  if (self->seconds > 0) t_burn(self->seconds);
  return NULL;
}

#define CROWD 140
#define CROWD_TIMERS 100u

/* More threads than a quarter of RLIMIT_SIGPENDING: the process tick stands in, as the header says. The limit counts
   what all processes of the user hold, so it is not made very small here. */
Test(host, a_small_limit_of_pending_signals_costs_timers_not_the_session) {
  static crowd_thread crowd[CROWD];
  struct rlimit limit;
  pthread_barrier_t barrier;
  pthread_attr_t attributes;
  if (t_signals_held() > (int)CROWD_TIMERS) cr_skip("other programs of this user hold too many timers for this test");
  getrlimit(RLIMIT_SIGPENDING, &limit);
  limit.rlim_cur = 4 * CROWD_TIMERS;
  cr_assert_eq(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
  pthread_barrier_init(&barrier, NULL, CROWD + 1);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  for (int i = 0; i < CROWD; i++) {
    /* The last ones burn: start meets them when the timers are gone. */
    crowd[i].barrier = &barrier;
    crowd[i].seconds = i < CROWD - 6 ? 0 : 0.25;
    cr_assert_eq(pthread_create(&crowd[i].thread, &attributes, crowd_main, &crowd[i]), 0);
  }
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = NULL;
  int result = onstack_session_start(&options, &session);
  cr_assert_eq(result, 0, "%d %s", result, onstack_strerror(result));
  double before = t_process_cpu();
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < CROWD; i++) pthread_join(crowd[i].thread, NULL);
  double burned = t_process_cpu() - before;
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.threads_unarmed, 0);
  cr_assert_leq(stats.threads_seen, CROWD_TIMERS);
  t_near(t_seconds_of(collector, 0), burned, 0.25, "unarmed threads are sampled by the process tick");
}

/* Nothing that is left of a start that failed. */
/* Without room for one queued signal a ticker's would arrive without their value. */
Test(host, no_signal_to_be_queued_is_a_failed_start_that_leaves_nothing) {
  struct rlimit limit;
  getrlimit(RLIMIT_SIGPENDING, &limit);
  limit.rlim_cur = 0;
  cr_assert_eq(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
  t_traces before = t_traces_now();
  struct onstack_kernel_sigaction action = t_action(SIGPROF);
  onstack_session *session = (onstack_session *)&before;
  int result = onstack_session_start(NULL, &session);
  cr_assert_eq(result, ONSTACK_E_CLOCK, "%d", result);
  cr_assert_null(session);
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "failed start");
  struct onstack_kernel_sigaction now = t_action(SIGPROF);
  cr_assert(t_same_action(&action, &now));
}
