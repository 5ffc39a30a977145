/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Several sessions side by side, their life cycle, and the calls that would wait for themselves. */
#include "support.h"

#include <errno.h>

TestSuite(sessions, .init = t_setup);

Test(sessions, two_rates_do_not_disturb_each_other) {
  t_collector *slow = t_collector_new(), *fast = t_collector_new();
  onstack_options low = t_options(19, t_collect, slow), high = t_options(200, t_collect, fast);
  onstack_session *first = t_start(&low), *second = t_start(&high);
  double before = t_process_cpu();
  t_burn(1.5);
  double burned = t_process_cpu() - before;
  onstack_stats stats = t_finish(second);
  t_burn(0.7);
  burned += 0.7;
  onstack_stats slow_stats = t_finish(first);
  cr_assert_eq(stats.period, 1000000000u / 200);
  cr_assert_eq(slow_stats.period, 1000000000u / 19);
  t_near(t_seconds_of(fast, 0), burned - 0.7, 0.10, "200 Hz");
  t_near(t_seconds_of(slow, 0), burned, 0.15, "19 Hz");
}

Test(sessions, eight_run_and_the_ninth_is_refused) {
  onstack_session *sessions[ONSTACK_MAX_SESSIONS], *ninth = (void *)&sessions;
  t_traces before = t_traces_now();
  for (int i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_options options = t_options(50 + 10 * (uint32_t)i, NULL, NULL);
    sessions[i] = t_start(&options);
  }
  t_traces with_eight = t_traces_now();
  cr_assert_eq(onstack_session_start(NULL, &ninth), ONSTACK_E_SESSIONS);
  cr_assert_null(ninth);
  t_traces after_refusal = t_traces_now();
  t_same_traces(&with_eight, &after_refusal, "the refused start");
  t_burn(0.8);
  for (int i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_stats stats = t_finish(sessions[i]);
    t_near((double)stats.recorded * (double)stats.period * 1e-9, 0.8, 0.15, "each of the eight");
  }
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "eight sessions");
  onstack_session *again = t_start(NULL); /* a slot is free again */
  t_finish(again);
}

Test(sessions, a_stopped_session_says_so) {
  onstack_options options = t_options(0, NULL, NULL);
  options.unwinder = "frame_pointer";
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  cr_assert_eq(t_stats(session).running, 1);
  cr_assert_eq(onstack_session_stop(session), 0);
  cr_assert_eq(onstack_session_stop(session), ONSTACK_E_STOPPED);
  cr_assert_eq(onstack_session_poll(session, 0), ONSTACK_E_STOPPED);
  onstack_stats once = t_stats(session);
  t_burn(0.1);
  onstack_session *other = t_start(NULL); /* takes the slot; the old handle keeps its own numbers */
  t_burn(0.1);
  onstack_stats again = t_stats(session);
  cr_assert_eq(once.ticks, again.ticks);
  cr_assert_eq(again.running, 0);
  cr_assert_str_eq(again.unwinder, "frame_pointer");
  t_finish(other);
  cr_assert_eq(onstack_session_free(session), 0);
}

Test(sessions, free_stops_a_running_one_and_takes_null) {
  t_traces before = t_traces_now();
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(500, t_collect, collector);
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  cr_assert_eq(onstack_session_free(session), 0);
  cr_assert_gt(collector->weight, 50, "its last samples reached the sink");
  uint64_t weight = collector->weight;
  t_burn(0.1);
  cr_assert_eq(collector->weight, weight, "no sink call after free");
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "free");
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
  cr_assert_eq(onstack_session_free(NULL), 0);
  cr_assert_eq(onstack_session_stop(NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_session_poll(NULL, 0), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_session_start(NULL, NULL), ONSTACK_E_OPTIONS);
}

/* ---- calls from inside ---- */

typedef struct inside {
  onstack_session *self, *other;
  volatile int calls, start, stop_self, stop_other, free_self, poll_self, stats;
  onstack_session *made;
} inside;

static void try_everything(inside *in) {
  if (!in->self || in->calls++) return; /* `self` is known only after start has returned */
  onstack_stats stats = {.size = sizeof(stats)};
  in->made = (void *)in;
  in->start = onstack_session_start(NULL, &in->made);
  in->stop_self = onstack_session_stop(in->self);
  in->stop_other = onstack_session_stop(in->other);
  in->free_self = onstack_session_free(in->self);
  in->poll_self = onstack_session_poll(in->self, 0);
  in->stats = onstack_session_stats(in->self, &stats);
}

static void check_inside(inside *in) {
  cr_assert_gt(in->calls, 0, "nothing was tried");
  cr_assert_eq(in->start, ONSTACK_E_CONTEXT, "start: %d", in->start);
  cr_assert_null(in->made);
  cr_assert_eq(in->stop_self, ONSTACK_E_CONTEXT);
  cr_assert_eq(in->stop_other, ONSTACK_E_CONTEXT);
  cr_assert_eq(in->free_self, ONSTACK_E_CONTEXT);
  cr_assert_eq(in->poll_self, ONSTACK_E_CONTEXT);
  cr_assert_eq(in->stats, 0, "statistics may be asked for anywhere");
  cr_assert_eq(t_stats(in->self).running, 1, "the handle is still good");
  t_finish(in->self);
  t_finish(in->other);
}

static int inside_sink(void *data, const onstack_sample *sample) {
  (void)sample;
  try_everything(data);
  return 0;
}

static void inside_a_sink(onstack_switch threads) {
  inside in = {0};
  onstack_options options = t_options(1000, inside_sink, &in);
  options.threads = threads;
  in.other = t_start(NULL);
  in.self = t_start(&options);
  for (int i = 0; i < 40 && !in.stats && !in.stop_self; i++) {
    t_burn(0.02);
    if (threads == ONSTACK_OFF) cr_assert_geq(onstack_session_poll(in.self, 0), 0);
  }
  t_sleep(0.15); /* for a drain thread that is behind */
  check_inside(&in);
}
Test(sessions, calls_from_a_sink_on_the_drain_thread) { inside_a_sink(ONSTACK_ON); }
Test(sessions, calls_from_a_sink_in_poll) { inside_a_sink(ONSTACK_OFF); }

static onstack_walk_result inside_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                       uint32_t capacity) {
  (void)ucontext;
  (void)capacity;
  try_everything(data);
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

Test(sessions, calls_from_an_unwinder) {
  inside in = {0};
  onstack_unwinder walker = {.size = sizeof(walker), .name = "inside", .walk = inside_walk, .data = &in};
  onstack_options options = t_options(1000, NULL, NULL);
  options.custom_unwinder = &walker;
  in.other = t_start(NULL);
  in.self = t_start(&options);
  t_burn(0.1);
  check_inside(&in);
}
