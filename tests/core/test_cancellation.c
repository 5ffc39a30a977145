/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread whose cancellation is pending calls the library. Each call returns, whatever cancellation points it reaches, and
 * leaves nothing behind. Then the thread ends at its own next cancellation point.
 */
#include "support.h"
#include "onstack/profile.h"
#include "onstack/heap.h"
#include "onstack/labels.h"
#include "onstack/interpreter.h"
#include "onstack/traceback.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(cancellation, .init = t_setup);

typedef struct cancelled {
  void (*calls)(void *data);
  void *data;
  bool returned; /* from all calls */
} cancelled;

static void *cancelled_main(void *data) {
  cancelled *self = data;
  self->calls(self->data);
  self->returned = true;
  for (;;) pthread_testcancel();
  return NULL;
}

static void call_cancelled(void (*calls)(void *data), void *data) {
  cancelled self = {calls, data, false};
  pthread_t thread;
  void *result;
  cr_assert_eq(pthread_create(&thread, NULL, cancelled_main, &self), 0);
  pthread_join(thread, &result);
  cr_assert(self.returned, "the thread ended inside a call");
  cr_assert_eq(result, PTHREAD_CANCELED, "the calls left cancellation disabled");
}

/* A callback that is a cancellation point. */
static void wait_in_callback(int *count) {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  (*count)++;
}

static int sink_that_opens(void *data, const onstack_sample *sample) {
  (void)sample;
  wait_in_callback(data);
  return 0;
}

static int writer_that_opens(void *data, const void *bytes, size_t length) {
  (void)bytes, (void)length;
  wait_in_callback(data);
  return 0;
}

static int visit_that_opens(void *data, const onstack_module_stats *module) {
  (void)module;
  wait_in_callback(data);
  return 0;
}

/* Called in the middle of a start, under its lock. */
static int cancel_in_prepare(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data, (void)memory, (void)loops;
  pthread_cancel(pthread_self());
  return 0;
}

static int no_describe(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                       onstack_frame_text *text) {
  (void)data, (void)memory, (void)frame, (void)text;
  return -1;
}

static uint32_t no_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                        uint32_t capacity) {
  (void)data, (void)memory, (void)frames, (void)capacity;
  return 0;
}

static const onstack_clock clocks[] = {ONSTACK_CLOCK_CPU, ONSTACK_CLOCK_WALL, ONSTACK_CLOCK_WALL_SIGNAL, ONSTACK_CLOCK_HEAP};

typedef struct session_calls {
  onstack_clock clock;
  onstack_switch threads;
  int count;
} session_calls;

static void use_session(void *data) {
  static const onstack_frame_provider provider = {
      .size = sizeof(provider), .name = "cancels", .prepare = cancel_in_prepare, .copy = no_copy, .describe = no_describe};
  session_calls *calls = data;
  onstack_options options = t_options(0, sink_that_opens, &calls->count);
  onstack_session *session;
  options.clock = calls->clock;
  options.threads = calls->threads;
  options.frame_provider = &provider;
  const int result = onstack_session_start(&options, &session);
  pthread_cancel(pthread_self());
  onstack_options_fault(&options);
  if (result < 0) return; /* a kernel without that clock */
  t_burn(0.02);
  onstack_session_poll(session, 0);
  onstack_session_stats_text(session, writer_that_opens, &calls->count);
  onstack_session_memory_text(session, NULL, writer_that_opens, &calls->count);
  onstack_session_modules(session, visit_that_opens, &calls->count);
  onstack_session_stop(session);
  onstack_session_free(session);
}

static void a_start_succeeds(void) {
  t_deadline(20);
  t_finish(t_start(NULL));
}

Test(cancellation, sessions_begin_and_end) {
  t_finish(t_start(NULL)); /* what the first start of a process keeps */
  const t_traces before = t_traces_now();
  for (size_t i = 0; i < 2 * sizeof(clocks) / sizeof(clocks[0]); i++) {
    session_calls calls = {clocks[i / 2], i % 2 == 0 ? ONSTACK_ON : ONSTACK_OFF, 0};
    call_cancelled(use_session, &calls);
    cr_assert(calls.count > 0 || calls.clock == ONSTACK_CLOCK_WALL || calls.clock == ONSTACK_CLOCK_WALL_SIGNAL);
  }
  const t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a cancelled thread");
  a_start_succeeds();
}

static void use_profiles(void *data) {
  const uint64_t frames[] = {(uint64_t)(uintptr_t)use_profiles, 0xc0ffee};
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_CPU,
                                 .unit = ONSTACK_UNIT_NANOSECONDS,
                                 .value = 1,
                                 .weight = 1,
                                 .period = 1,
                                 .frames = frames,
                                 .frame_count = 2};
  onstack_profile *profile, *taken;
  pthread_cancel(pthread_self());
  if (onstack_profile_new(NULL, &profile) < 0) return;
  onstack_profile_sink(profile, &sample);
  onstack_profile_write_pprof(profile, NULL, writer_that_opens, data);
  onstack_profile_write_folded(profile, NULL, writer_that_opens, data);
  if (onstack_profile_take(profile, &taken) == 0) onstack_profile_free(taken);
  onstack_profile_sink(profile, &sample);
  onstack_profile_clear(profile);
  onstack_profile_free(profile);
}

Test(cancellation, profiles_are_written) {
  int calls = 0;
  call_cancelled(use_profiles, &calls); /* the first time */
  const t_traces before = t_traces_now();
  call_cancelled(use_profiles, &calls);
  cr_assert_geq(calls, 4, "two writers, called twice");
  const t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a cancelled thread");
}

static void take_dumps(void *data) {
  onstack_profile *profile;
  pthread_cancel(pthread_self());
  onstack_dump(NULL, writer_that_opens, data);
  if (onstack_profile_new(NULL, &profile) < 0) return;
  onstack_dump_take(profile);
  onstack_profile_free(profile);
}

Test(cancellation, dumps_are_taken) {
  int calls = 0;
  call_cancelled(take_dumps, &calls);
  a_start_succeeds();
}

static void use_the_rest(void *data) {
  (void)data;
  pthread_cancel(pthread_self());
  onstack_thread_spans_use(ONSTACK_ON);
  onstack_thread_spans_use(ONSTACK_OFF);
  onstack_thread_label_set("task", "cancelled");
  onstack_thread_labels_clear();
  onstack_traceback_prepare();
  onstack_go_labels_use((uint64_t)(uintptr_t)use_the_rest, 0);
}

Test(cancellation, labels_and_tables_are_prepared) {
  call_cancelled(use_the_rest, NULL);
  cr_assert_eq(onstack_thread_label_set("task", "next"), 0);
  cr_assert_eq(onstack_traceback_prepare(), 0);
  a_start_succeeds();
}

/* As a host does it: at any instant, and not before the calls. */
static void *start_for_ever(void *data) {
  for (;;) {
    onstack_options options = t_options(100, sink_that_opens, data);
    onstack_session *session;
    if (onstack_session_start(&options, &session) == 0) onstack_session_free(session);
  }
  return NULL;
}

Test(cancellation, at_any_instant_of_a_start_or_stop) {
  int calls = 0;
  for (unsigned i = 0; i < 10 * t_repeat(); i++) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, start_for_ever, &calls), 0);
    t_sleep(0.0003 * (i + 1));
    pthread_cancel(thread);
    t_deadline(20);
    pthread_join(thread, NULL);
    t_finish(t_start(NULL));
  }
}
