/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork = follow: the child goes on under the same handle, with samples, statistics and a profile of its own. */
#include "support.h"
#include "onstack/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(fork_follow, .init = t_setup);

/* In a child an assert of Criterion's would be lost: it returns the number of the first step that failed. */
#define STEP(number, condition)                                                                                             \
  do {                                                                                                                      \
    if (!(condition)) _exit(number);                                                                                        \
  } while (0)

typedef struct counter {
  uint64_t samples, weight;
  int32_t other; /* a thread id that is none of this process; 0: none was seen */
} counter;

static int count(void *data, const onstack_sample *sample) {
  counter *c = data;
  c->samples++;
  c->weight += sample->weight;
  if (sample->tid != onstack_sys_getpid()) c->other = sample->tid;
  return 0;
}

static onstack_options follow_options(onstack_sink sink, void *data) {
  onstack_options options = t_options(500, sink, data);
  options.fork = ONSTACK_FORK_FOLLOW;
  return options;
}

/* A tenth of a second of the only thread: samples of its own, its statistics, a stop and a free that work. */
static void child_goes_on(onstack_session *session, uint64_t *weight, bool polls) {
  onstack_stats stats = {.size = sizeof(stats)};
  t_deadline(20);
  double before = t_thread_cpu();
  t_burn(0.1);
  double burned = t_thread_cpu() - before;
  if (polls) STEP(10, onstack_session_poll(session, 0) > 3);
  STEP(11, onstack_session_stats(session, &stats) == 0 && stats.running);
  STEP(12, onstack_session_stop(session) == 0);
  STEP(13, onstack_session_stats(session, &stats) == 0 && !stats.running);
  STEP(14, stats.recorded == *weight);
  double got = (double)stats.recorded * (double)stats.period * 1e-9;
  STEP(15, got > burned * 0.7 && got < burned * 1.3);
  STEP(16, onstack_session_stop(session) == ONSTACK_E_STOPPED);
  STEP(17, onstack_session_free(session) == 0);
  struct onstack_kernel_sigaction now = {0};
  onstack_sys_sigaction(SIGPROF, NULL, &now);
  STEP(18, now.handler == (uint64_t)(uintptr_t)SIG_DFL);
}

static void goes_on(onstack_switch threads) {
  counter *counted = calloc(1, sizeof(*counted));
  onstack_options options = follow_options(count, counted);
  options.threads = threads;
  onstack_session *session = t_start(&options);
  t_burn(0.1); /* with the drain thread off these wait in the buffer, and the child must not see them */
  int child = fork();
  if (child == 0) {
    if (threads != ONSTACK_OFF) *counted = (counter){0};
    child_goes_on(session, &counted->weight, threads == ONSTACK_OFF);
    STEP(1, counted->other == 0);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "the child failed at step %d", status);
  t_burn(0.2);
  onstack_stats stats = t_finish(session);
  t_near((double)stats.recorded * 0.002, 0.3, 0.15, "the parent");
  cr_assert_eq(counted->weight, stats.recorded);
}
Test(fork_follow, the_child_goes_on_by_itself) { goes_on(ONSTACK_ON); }
Test(fork_follow, without_threads_the_child_polls) { goes_on(ONSTACK_OFF); }

Test(fork_follow, the_default_does_not) {
  onstack_options options = t_options(500, NULL, NULL);
  onstack_session *session = t_start(&options);
  int child = fork();
  if (child == 0) {
    STEP(1, onstack_session_stop(session) == ONSTACK_E_STOPPED);
    _exit(0);
  }
  cr_assert_eq(t_wait(child), 0);
  t_finish(session);
}

/* ---- what the samples go to ---- */

Test(fork_follow, the_childs_profile_begins_empty) {
  onstack_profile *profile = NULL;
  uint64_t before = 0, ticks = 0;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_options options = follow_options(onstack_profile_sink, profile);
  onstack_session *session = t_start(&options);
  t_burn(0.3);
  int child = fork();
  if (child == 0) {
    onstack_stats stats = {.size = sizeof(stats)};
    t_deadline(20);
    t_burn(0.1);
    STEP(1, onstack_session_stop(session) == 0);
    STEP(2, onstack_session_stats(session, &stats) == 0);
    onstack_profile_totals(profile, ONSTACK_KIND_CPU, NULL, &ticks, NULL);
    STEP(3, ticks == stats.recorded && ticks > 20 && ticks < 100);
    onstack_profile_free(profile);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "the child failed at step %d", status);
  onstack_profile_totals(profile, ONSTACK_KIND_CPU, NULL, &before, NULL);
  onstack_stats stats = t_finish(session);
  onstack_profile_totals(profile, ONSTACK_KIND_CPU, NULL, &ticks, NULL);
  cr_assert(before > 100 && ticks == stats.recorded, "the parent's keeps its own: %lu, %lu", before, ticks);
  onstack_profile_free(profile);
}

static counter other_counter;
static void *other_output(void *data) {
  other_counter.other = *(int *)data == 7 ? 0 : 1;
  return &other_counter;
}
static int count_or_refuse(void *data, const onstack_sample *sample) {
  if (data != &other_counter) return 0; /* the parent's */
  other_counter.samples++;
  other_counter.weight += sample->weight;
  return 0;
}

Test(fork_follow, sink_data_of_its_own) {
  int seven = 7;
  onstack_options options = follow_options(count_or_refuse, &seven);
  options.fork_sink_data = other_output;
  onstack_session *session = t_start(&options);
  t_burn(0.1);
  int child = fork();
  if (child == 0) {
    child_goes_on(session, &other_counter.weight, false);
    STEP(1, other_counter.samples > 10 && other_counter.other == 0);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "the child failed at step %d", status);
  t_finish(session);
  cr_assert_eq(other_counter.samples, 0, "the parent's goes where it went");
  onstack_session *none = NULL;
  options.fork = ONSTACK_FORK_STOP;
  cr_assert_eq(onstack_session_start(&options, &none), ONSTACK_E_OPTIONS, "it would never be called");
}

/* ---- generations, sessions side by side ---- */

Test(fork_follow, the_child_of_a_child_goes_on_too) {
  counter counted = {0};
  onstack_options options = follow_options(count, &counted);
  onstack_session *session = t_start(&options);
  int child = fork();
  if (child == 0) {
    t_deadline(30);
    int grandchild = fork();
    if (grandchild == 0) {
      child_goes_on(session, &counted.weight, false);
      _exit(0);
    }
    int status = t_wait(grandchild);
    STEP(status, status == 0);
    child_goes_on(session, &counted.weight, false);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "step %d", status);
  t_finish(session);
}

Test(fork_follow, only_the_sessions_that_want_to) {
  counter a = {0}, b = {0}, c = {0};
  onstack_options first = follow_options(count, &a), second = t_options(500, count, &b), third = follow_options(count, &c);
  onstack_session *one = t_start(&first), *two = t_start(&second), *three = t_start(&third);
  int child = fork();
  if (child == 0) {
    t_deadline(20);
    a = b = c = (counter){0};
    t_burn(0.1);
    STEP(1, onstack_session_stop(two) == ONSTACK_E_STOPPED && b.samples == 0);
    STEP(2, onstack_session_stop(one) == 0 && a.samples > 10);
    STEP(3, onstack_session_free(three) == 0 && c.samples > 10);
    STEP(4, onstack_session_free(one) == 0 && onstack_session_free(two) == 0);
    _exit(0);
  }
  int status = t_wait(child);
  cr_assert_eq(status, 0, "step %d", status);
  t_finish(three);
  t_finish(one);
  t_finish(two);
}

/* ---- at every instant ---- */

static volatile bool over;
static void *starts_and_stops(void *data) {
  while (!over) {
    onstack_session *session = NULL;
    onstack_options options = follow_options(onstack_profile_sink, data);
    options.unwinder = "pc_only";
    if (onstack_session_start(&options, &session) == 0) onstack_session_free(session);
  }
  return data;
}

static void *burns(void *unused) {
  while (!over) t_burn(0.005);
  return unused;
}

/* The parent's drain thread is in the profile, or a start or stop is half done, at whatever instant the fork comes. */
Test(fork_follow, while_samples_come_and_sessions_come_and_go) {
  onstack_profile *profile = NULL;
  pthread_t threads[3];
  onstack_profile_new(NULL, &profile);
  onstack_options options = follow_options(onstack_profile_sink, profile);
  options.frequency = 5000;
  onstack_session *session = t_start(&options);
  pthread_create(&threads[0], NULL, starts_and_stops, profile);
  for (int i = 1; i < 3; i++) pthread_create(&threads[i], NULL, burns, NULL);
  for (unsigned i = 0; i < 60 * t_repeat(); i++) {
    int child = fork();
    if (child == 0) {
      onstack_stats stats = {.size = sizeof(stats)};
      t_deadline(20);
      for (int i = 0; i < 200 && stats.ticks <= 10; i++) { /* on a busy machine the kernel's own tick may stay away */
        t_burn(0.005);
        onstack_session_stats(session, &stats);
      }
      STEP(1, onstack_session_stop(session) == 0);
      STEP(2, onstack_session_stats(session, &stats) == 0 && stats.recorded > 10);
      uint64_t ticks = 0;
      onstack_profile_totals(profile, ONSTACK_KIND_CPU, NULL, &ticks, NULL);
      STEP(3, ticks >= stats.recorded); /* the other session may follow as well, into the same profile */
      STEP(4, onstack_session_free(session) == 0);
      _exit(0);
    }
    int status = t_wait(child);
    cr_assert_eq(status, 0, "child %u ended with %d", i, status);
  }
  over = true;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  t_finish(session);
  onstack_profile_free(profile);
}

/* A child that does not care: it ends by exit, _exit or exec while it is sampled. */
Test(fork_follow, the_child_ends_as_it_likes) {
  onstack_options options = follow_options(NULL, NULL);
  options.frequency = 5000;
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 30; i++) {
    int child = fork();
    if (child == 0) {
      t_deadline(20);
      t_burn(0.005);
      if (i % 3 == 0) exit(0);
      if (i % 3 == 1) execlp("true", "true", (char *)NULL);
      _exit(i % 3 == 2 ? 0 : 1);
    }
    int status = t_wait(child);
    cr_assert_eq(status, 0, "way %d ended with %d", i % 3, status);
  }
  t_finish(session);
}

/* ---- where it does not follow ---- */

typedef struct forking_sink {
  onstack_session *session;
  int calls, status;
} forking_sink;

static int sink_forks(void *data, const onstack_sample *sample) {
  forking_sink *sink = data;
  (void)sample;
  if (sink->calls++ != 2) return 0;
  int child = fork();
  if (child == 0) {
    t_deadline(20);
    _exit(onstack_session_stop(sink->session) == ONSTACK_E_STOPPED ? 0 : 1);
  }
  sink->status = t_wait(child);
  return 0;
}

Test(fork_follow, not_from_inside_a_sink) {
  forking_sink sink = {.status = -1};
  onstack_options options = follow_options(sink_forks, &sink);
  onstack_session *session = t_start(&options);
  sink.session = session;
  t_burn(0.2);
  t_finish(session);
  cr_assert_eq(sink.status, 0, "the child ended with %d", sink.status);
}
