/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From the buffer to the sink: overflow, polling, refusal, the last samples. The accounting closes in each case. */
#include "support.h"

#include <string.h>

TestSuite(delivery, .init = t_setup);

typedef struct slow_sink {
  double seconds;
  volatile uint64_t calls, inside, overlapped;
} slow_sink;

static int sleeps(void *data, const onstack_sample *sample) {
  slow_sink *sink = data;
  (void)sample;
  if (__atomic_fetch_add(&sink->inside, 1, __ATOMIC_SEQ_CST) != 0) sink->overlapped++;
  t_sleep(sink->seconds);
  sink->calls++;
  __atomic_fetch_sub(&sink->inside, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* Fixed work, so that what a full buffer costs would be seen in its time. */
static double work(void) {
  double begin = t_thread_cpu();
  for (volatile uint64_t i = 0; i < 400000000; i++) continue;
  return t_thread_cpu() - begin;
}

/* As deep as can be: 9 KiB a sample. */
static onstack_walk_result walk_deep(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                     uint32_t capacity) {
  (void)data;
  (void)ucontext;
  for (uint32_t i = 0; i < capacity; i++) frames[i] = registers->pc;
  return (onstack_walk_result){capacity, ONSTACK_TRUNCATED_DEPTH};
}

Test(delivery, a_full_buffer_drops_and_counts_and_the_program_does_not_wait) {
  slow_sink sink = {.seconds = 0.05};
  onstack_options options = t_options(10000, sleeps, &sink);
  options.buffer_bytes = 1;
  options.max_depth = 1024; /* few fit into the smallest buffer */
  onstack_unwinder deep = {.size = sizeof(deep), .name = "deep", .walk = walk_deep};
  options.custom_unwinder = &deep;
  double alone = work();
  onstack_session *session = t_start(&options);
  double cpu = t_thread_cpu(), wall = t_now();
  double sampled = work();
  cpu = t_thread_cpu() - cpu;
  wall = t_now() - wall;
  onstack_stats running = t_stats(session);
  cr_assert_gt(running.dropped_ring_full, 0, "%lu ticks, %lu samples", running.ticks, running.samples);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.recorded, 0);
  cr_assert_lt(sampled, alone * 1.5 + 0.1, "%.3f s alone, %.3f s sampled", alone, sampled);
  cr_assert_eq(sink.calls, stats.delivered);
  t_near((double)stats.ticks * 1e-4, cpu, 0.15, "dropped ticks are ticks");
}

Test(delivery, nothing_arrives_before_poll) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(500, t_collect, collector);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  cr_assert_eq(onstack_session_poll(session, 0), 0, "nothing yet");
  t_burn(0.3);
  t_sleep(0.2);
  cr_assert_eq(collector->count, 0, "nobody asked");
  int handed = onstack_session_poll(session, 7);
  cr_assert_eq(handed, 7);
  cr_assert_eq(collector->count, 7);
  uint64_t waiting = t_stats(session).samples - 7;
  handed = onstack_session_poll(session, 0);
  cr_assert_geq((uint64_t)handed, waiting);
  cr_assert_gt(handed, 12);
  t_burn(0.2);
  size_t before = collector->count;
  t_finish(session);
  cr_assert_gt(collector->count, before + 8, "the last samples are handed over by stop");
}

Test(delivery, samples_come_in_the_order_of_time_with_their_fields) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(500, t_collect, collector);
  uint64_t begin = (uint64_t)(t_now() * 1e9);
  onstack_session *session = t_start(&options);
  t_burn(0.5);
  onstack_stats stats = t_finish(session);
  uint64_t end = (uint64_t)(t_now() * 1e9) + 1000;
  cr_assert_eq(collector->count, stats.delivered);
  cr_assert_eq(collector->period_ns, 2000000);
  cr_assert_eq(t_weight_of(collector, 0), stats.recorded);
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    cr_assert_geq(sample->frame_count, 1);
    cr_assert_geq(sample->weight, 1);
    cr_assert_lt(sample->truncation, ONSTACK_TRUNCATION_COUNT);
    cr_assert(sample->time_ns > begin - 1000000 && sample->time_ns < end);
    if (i > 0) cr_assert_geq(sample->time_ns, sample[-1].time_ns, "one thread: in order");
  }
}

static int refuses(void *data, const onstack_sample *sample) {
  uint64_t *calls = data;
  (void)sample;
  return ++*calls % 2 ? 1 : 0;
}

Test(delivery, what_the_sink_refuses_is_counted) {
  uint64_t calls = 0;
  onstack_options options = t_options(500, refuses, &calls);
  onstack_session *session = t_start(&options);
  t_burn(0.4);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(calls, 25);
  cr_assert_eq(stats.delivered, calls);
  cr_assert_eq(stats.dropped_sink, (calls + 1) / 2);
}

Test(delivery, no_sink_means_statistics_only) {
  onstack_options options = t_options(500, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.delivered, 10);
  cr_assert_eq(stats.dropped_sink, 0);
}

/* ---- poll beside a drain thread, and a stop that meets a sink ---- */

typedef struct poller {
  onstack_session *session;
  volatile bool over;
  int result;
} poller;

static void *polls(void *data) {
  poller *p = data;
  while (!p->over && p->result >= 0) p->result = onstack_session_poll(p->session, 3);
  return NULL;
}

Test(delivery, poll_and_drain_thread_share_the_work_and_never_overlap) {
  slow_sink sink = {.seconds = 0.001};
  onstack_options options = t_options(1000, sleeps, &sink);
  poller p = {.session = t_start(&options)};
  pthread_t thread;
  pthread_create(&thread, NULL, polls, &p);
  t_burn(0.6);
  p.over = true;
  pthread_join(thread, NULL);
  cr_assert_geq(p.result, 0);
  onstack_stats stats = t_finish(p.session);
  cr_assert_eq(sink.overlapped, 0, "never twice at the same time for one session");
  cr_assert_eq(sink.calls, stats.delivered);
}

static int sleeps_long(void *data, const onstack_sample *sample) {
  slow_sink *sink = data;
  (void)sample;
  __atomic_store_n(&sink->inside, 1, __ATOMIC_SEQ_CST);
  if (sink->calls++ == 0) t_sleep(0.5);
  __atomic_store_n(&sink->inside, 0, __ATOMIC_SEQ_CST);
  return 0;
}

Test(delivery, stop_waits_for_a_sink_call_and_none_begins_after_it) {
  slow_sink sink = {0};
  onstack_options options = t_options(500, sleeps_long, &sink);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 100 && !sink.inside; i++) t_burn(0.01);
  cr_assert(sink.inside, "the sink sleeps now");
  cr_assert_eq(onstack_session_stop(session), 0);
  cr_assert_eq(sink.inside, 0);
  uint64_t calls = sink.calls;
  t_burn(0.2);
  cr_assert_eq(sink.calls, calls);
  onstack_session_free(session);
}

/* The sink waits for a thread that starts and stops a session: no lock of ours may be held while a sink runs. */
static void *other_session(void *result) {
  onstack_session *session = NULL;
  *(int *)result = onstack_session_start(NULL, &session);
  if (*(int *)result == 0) *(int *)result = onstack_session_free(session);
  return NULL;
}
static int waits_for_another(void *data, const onstack_sample *sample) {
  int *state = data;
  pthread_t thread;
  (void)sample;
  if (state[0]++ > 3) return 0;
  pthread_create(&thread, NULL, other_session, &state[1]);
  pthread_join(thread, NULL);
  return 0;
}
Test(delivery, a_sink_may_wait_for_a_thread_that_starts_a_session) {
  int state[2] = {0, 1};
  onstack_options options = t_options(500, waits_for_another, state);
  t_deadline(20);
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  t_finish(session); /* stop, too, is under way while the sink waits */
  cr_assert_gt(state[0], 3);
  cr_assert_eq(state[1], 0);
}
