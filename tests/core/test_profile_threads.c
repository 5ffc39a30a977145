/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Several sinks, writers and a clear at once. Run it under the thread sanitizer too. */
#include "test_profile_support.h"

#include <pthread.h>
#include <stdatomic.h>

#define SINKS 3
#define SAMPLES 4000

typedef struct shared {
  onstack_profile *profile;
  atomic_int sinks_left;
  atomic_int next_tid;
} shared;

static void *run_sink(void *data) {
  shared *all = data;
  int32_t tid = atomic_fetch_add(&all->next_tid, 1);
  for (uint64_t i = 0; i < SAMPLES; i++) {
    uint64_t frames[2] = {0x100000 + i % 500 * 16, (uint64_t)(uintptr_t)run_sink + 1};
    onstack_sample sample = sample_of(frames, 2);
    sample.tid = tid;
    cr_assert_eq(onstack_profile_sink(all->profile, &sample), 0);
  }
  atomic_fetch_sub(&all->sinks_left, 1);
  return NULL;
}

/* Returns the ticks that the text adds up to. */
static uint64_t folded_ticks(char *text) {
  uint64_t ticks = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    ticks += strtoull(strrchr(line, ' ') + 1, NULL, 10);
  }
  return ticks;
}

/* Takes while sinks and a writer of its own are at work; returns the samples that all the taken profiles had. */
static uint64_t take_until_done(shared *all) {
  uint64_t sum = 0, samples, ticks;
  onstack_profile *taken;
  bool last;
  do {
    last = atomic_load(&all->sinks_left) == 0;
    cr_assert_eq(onstack_profile_take(all->profile, &taken), 0);
    onstack_profile_totals(taken, ONSTACK_KIND_CPU, &samples, &ticks, NULL);
    char *text = folded_text(taken, NULL);
    cr_assert_eq(folded_ticks(text), ticks);
    free(text);
    onstack_profile_free(taken);
    sum += samples;
  } while (!last);
  return sum;
}

static void *run_writer(void *data) {
  shared *all = data;
  while (atomic_load(&all->sinks_left) > 0) free(folded_text(all->profile, NULL));
  return NULL;
}

Test(profile_threads, what_is_taken_adds_up) {
  shared all = {.profile = profile_of(NULL), .sinks_left = SINKS, .next_tid = 1};
  pthread_t threads[SINKS], writer;
  for (int i = 0; i < SINKS; i++) pthread_create(&threads[i], NULL, run_sink, &all);
  pthread_create(&writer, NULL, run_writer, &all);
  cr_assert_eq(take_until_done(&all), (uint64_t)SINKS * SAMPLES);
  for (int i = 0; i < SINKS; i++) pthread_join(threads[i], NULL);
  pthread_join(writer, NULL);
  uint64_t left;
  onstack_profile_totals(all.profile, ONSTACK_KIND_CPU, &left, NULL, NULL);
  cr_assert_eq(left, 0);
  onstack_profile_free(all.profile);
}

static void run(bool clear, uint64_t expected) {
  shared all = {.profile = profile_of(NULL), .sinks_left = SINKS, .next_tid = 1};
  pthread_t threads[SINKS];
  for (int i = 0; i < SINKS; i++) pthread_create(&threads[i], NULL, run_sink, &all);
  uint64_t last = 0;
  while (atomic_load(&all.sinks_left) > 0) {
    char *text = folded_text(all.profile, NULL);
    uint64_t ticks = folded_ticks(text);
    free(text);
    cr_assert_leq(ticks, (uint64_t)SINKS * SAMPLES);
    if (!clear) cr_assert_geq(ticks, last);
    last = ticks;
    decoded_free(write_and_decode(
        all.profile, &(onstack_write_options){.size = sizeof(onstack_write_options), .symbolize = ONSTACK_OFF}));
    if (clear) onstack_profile_clear(all.profile);
  }
  for (int i = 0; i < SINKS; i++) pthread_join(threads[i], NULL);
  if (clear) onstack_profile_clear(all.profile);
  uint64_t samples, ticks;
  onstack_profile_totals(all.profile, ONSTACK_KIND_CPU, &samples, &ticks, NULL);
  cr_assert_eq(samples, expected);
  char *text = folded_text(all.profile, NULL);
  cr_assert_eq(folded_ticks(text), ticks);
  free(text);
  onstack_profile_free(all.profile);
}

Test(profile_threads, writers_see_whole_states) { run(false, (uint64_t)SINKS * SAMPLES); }
Test(profile_threads, clear_under_a_writer) { run(true, 0); }
