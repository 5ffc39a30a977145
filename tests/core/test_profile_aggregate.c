/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counting: which samples are one stack, totals, limits, and what is refused. */
#include "test_profile_support.h"

#include <errno.h>

static const uint64_t frames_a[] = {0x11000, 0x12001, 0x13001};
static const uint64_t frames_b[] = {0x11000, 0x12001};

static void check_totals(const onstack_profile *profile, uint64_t samples, uint64_t ticks, uint64_t time_ns) {
  uint64_t have[3];
  onstack_profile_totals(profile, ONSTACK_KIND_CPU, &have[0], &have[1], &have[2]);
  cr_assert_eq(have[0], samples, "samples %lu", (unsigned long)have[0]);
  cr_assert_eq(have[1], ticks, "ticks %lu", (unsigned long)have[1]);
  cr_assert_eq(have[2], time_ns, "time %lu", (unsigned long)have[2]);
}

Test(profile_aggregate, equal_stacks_are_counted_together_with_their_weight) {
  onstack_profile *profile = profile_of(NULL);
  onstack_sample sample = sample_of(frames_a, 3);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  weigh(&sample, 4);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  feed(profile, frames_b, 2);
  check_totals(profile, 3, 6, 6ull * PERIOD_NS);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->sample_count, 2);
  cr_assert_eq(out->samples[0].values[0], 5); /* ticks: times the period it is the time */
  cr_assert_eq(out->samples[0].values[1], 5ull * PERIOD_NS);
  cr_assert_eq(out->samples[1].values[0], 1);
  cr_assert_eq(out->samples[1].values[1], 1ull * PERIOD_NS);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_aggregate, taking_keeps_the_options_and_leaves_an_empty_profile) {
  onstack_profile_options options = {.size = sizeof(options), .thread_names = ONSTACK_OFF, .max_stacks = 1};
  onstack_profile *profile = profile_of(&options), *taken, *second;
  feed(profile, frames_a, 3);
  cr_assert_eq(onstack_profile_take(profile, &taken), 0);
  check_totals(profile, 0, 0, 0);
  check_totals(taken, 1, 1, PERIOD_NS);
  feed(profile, frames_b, 2);
  feed(profile, frames_a, 3); /* the second stack is one too many again */
  cr_assert_eq(onstack_profile_take(profile, &second), 0);
  decoded *out = write_and_decode(second, NULL);
  cr_assert_eq(out->sample_count, 2);
  cr_assert_null(out->samples[0].thread);
  decoded_free(out);
  onstack_profile_free(profile); /* what was taken does not need it */
  check_totals(taken, 1, 1, PERIOD_NS);
  onstack_profile_free(taken);
  onstack_profile_free(second);
}

Test(profile_aggregate, taking_refuses_nothing_to_take_from) {
  onstack_profile *profile = profile_of(NULL), *taken = profile;
  cr_assert_eq(onstack_profile_take(NULL, &taken), ONSTACK_E_OPTIONS);
  cr_assert_null(taken);
  cr_assert_eq(onstack_profile_take(profile, NULL), ONSTACK_E_OPTIONS);
  onstack_profile_free(profile);
}

Test(profile_aggregate, callers_are_looked_up_inside_the_call) {
  onstack_profile *profile = profile_of(NULL);
  feed(profile, frames_a, 3);
  decoded *out = write_and_decode(profile, NULL);
  const uint64_t expected[] = {0x11000, 0x12000, 0x13000};
  for (size_t i = 0; i < 3; i++) {
    cr_assert_eq(d_find_location(out, out->samples[0].locations[i])->address, expected[i]);
  }
  decoded_free(out);
  onstack_profile_free(profile);
}

static size_t samples_by_threads(onstack_switch names, onstack_switch ids) {
  onstack_profile_options options = {.size = sizeof(options), .thread_names = names, .thread_ids = ids};
  onstack_profile *profile = profile_of(&options);
  static const struct {
    int32_t tid;
    const char *name;
  } threads[] = {{1, "alpha"}, {2, "alpha"}, {3, "beta"}};
  for (size_t i = 0; i < 3; i++) {
    onstack_sample sample = sample_of(frames_a, 3);
    sample.tid = threads[i].tid;
    sample.thread_name = threads[i].name;
    cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  }
  decoded *out = write_and_decode(profile, NULL);
  size_t count = out->sample_count;
  for (size_t i = 0; i < count; i++) {
    cr_assert_eq(!!out->samples[i].thread, names != ONSTACK_OFF);
    cr_assert_eq(out->samples[i].thread_id != 0, ids != ONSTACK_OFF);
  }
  decoded_free(out);
  onstack_profile_free(profile);
  return count;
}

Test(profile_aggregate, threads_are_told_apart_or_merged) {
  cr_assert_eq(samples_by_threads(ONSTACK_DEFAULT, ONSTACK_DEFAULT), 3);
  cr_assert_eq(samples_by_threads(ONSTACK_ON, ONSTACK_OFF), 2);
  cr_assert_eq(samples_by_threads(ONSTACK_OFF, ONSTACK_ON), 3);
  cr_assert_eq(samples_by_threads(ONSTACK_OFF, ONSTACK_OFF), 1);
}

Test(profile_aggregate, folded_merges_threads_of_one_name) {
  onstack_profile *profile = profile_of(NULL);
  for (int32_t tid = 1; tid <= 3; tid++) {
    onstack_sample sample = sample_of(frames_b, 2);
    sample.tid = tid;
    weigh(&sample, 2);
    sample.thread_name = tid == 3 ? "" : "x;y\n";
    cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  }
  char *text = folded_text(profile, NULL);
  cr_assert_str_eq(text, "[unnamed thread];0x12000;0x11000 2\nx:y ;0x12000;0x11000 4\n");
  free(text);
  onstack_profile_free(profile);
}

Test(profile_aggregate, clear_forgets_samples_and_goes_on) {
  onstack_profile *profile = profile_of(NULL);
  feed(profile, frames_a, 3);
  onstack_profile_clear(profile);
  check_totals(profile, 0, 0, 0);
  char *text = folded_text(profile, NULL);
  cr_assert_str_eq(text, "");
  free(text);
  feed(profile, frames_b, 2);
  check_totals(profile, 1, 1, PERIOD_NS);
  text = folded_text(profile, NULL);
  cr_assert_str_eq(text, "worker;0x12000;0x11000 1\n");
  free(text);
  onstack_profile_clear(profile);
  onstack_profile_clear(profile);
  onstack_profile_free(profile);
}

Test(profile_aggregate, stacks_beyond_the_limit_are_counted_in_one) {
  onstack_profile_options options = {.size = sizeof(options), .max_stacks = 2};
  onstack_profile *profile = profile_of(&options);
  for (uint64_t i = 0; i < 10; i++) {
    uint64_t frame = 0x20000 + i;
    feed(profile, &frame, 1);
    frame = 0x20000; /* known: never in the overflow */
    feed(profile, &frame, 1);
  }
  check_totals(profile, 20, 20, 20ull * PERIOD_NS);
  char *text = folded_text(profile, NULL);
  cr_assert_str_eq(text, "[onstack: too many stacks] 8\nworker;0x20000 11\nworker;0x20001 1\n");
  free(text);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->sample_count, 3);
  cr_assert_str_eq(d_stack(out, 2), "[onstack: too many stacks]");
  cr_assert_eq(out->samples[2].values[0], 8);
  cr_assert_null(out->samples[2].thread);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_aggregate, many_stacks_keep_their_counts) {
  onstack_profile *profile = profile_of(NULL);
  enum { stacks = 50000 };
  for (uint64_t round = 0; round < 2; round++) {
    for (uint64_t i = 0; i < stacks; i++) {
      uint64_t frames[3] = {0x100000 + i * 16, 0x200001, 0x300001};
      feed(profile, frames, 3);
    }
  }
  onstack_write_options options = {.size = sizeof(options), .symbolize = ONSTACK_OFF};
  char *text = folded_text(profile, &options);
  size_t lines = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
    cr_assert_str_eq(line + strlen(line) - 2, " 2");
  }
  cr_assert_eq(lines, stacks);
  free(text);
  onstack_profile_free(profile);
}

Test(profile_aggregate, periods_add_up_to_the_right_time) {
  onstack_profile *profile = profile_of(NULL);
  onstack_sample sample = sample_of(frames_a, 3);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  sample.period = sample.value = 1000;
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  check_totals(profile, 2, 2, PERIOD_NS + 1000);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->samples[0].values[1] + out->samples[1].values[1], PERIOD_NS + 1000);
  cr_assert_eq(out->period, PERIOD_NS);
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_aggregate, a_name_cut_inside_a_character_stays_utf8) {
  onstack_profile *profile = profile_of(NULL);
  onstack_sample sample = sample_of(frames_b, 2);
  sample.thread_name = "abcdefghijklmn\xC3";
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  sample.thread_name = "ok-\xC3\xA9\xF0\x9F\x8E\x89 \xED\xA0\x80";
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_str_eq(out->samples[0].thread, "abcdefghijklmn\xEF\xBF\xBD");
  cr_assert_str_eq(out->samples[1].thread, "ok-\xC3\xA9\xF0\x9F\x8E\x89 \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  decoded_free(out);
  onstack_profile_free(profile);
}

Test(profile_aggregate, what_is_no_sample_is_refused_and_not_counted) {
  onstack_profile *profile = profile_of(NULL);
  onstack_sample good = sample_of(frames_a, 3), bad;
  cr_assert_eq(onstack_profile_sink(NULL, &good), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_sink(profile, NULL), ONSTACK_E_OPTIONS);
  bad = good, bad.size = 8;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.frame_count = 0;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.frame_count = ONSTACK_MAX_DEPTH + 1;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.frames = NULL;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.kind = 0;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.kind = UINT32_MAX;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.unit = ONSTACK_UNIT_BYTES; /* not of CPU time */
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  bad = good, bad.weight = 0;
  cr_assert_eq(onstack_profile_sink(profile, &bad), ONSTACK_E_OPTIONS);
  check_totals(profile, 0, 0, 0);
  bad = good, bad.thread_name = NULL;
  cr_assert_eq(onstack_profile_sink(profile, &bad), 0);
  onstack_profile_free(profile);
  onstack_profile_free(NULL);
  onstack_profile_clear(NULL);
}

Test(profile_aggregate, options_are_checked) {
  onstack_profile *profile = (onstack_profile *)16;
  onstack_profile_options options = {.size = sizeof(options), .thread_names = 3};
  cr_assert_eq(onstack_profile_new(NULL, NULL), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_profile_new(&options, &profile), ONSTACK_E_OPTIONS);
  cr_assert_null(profile);
  options = (onstack_profile_options){.size = sizeof(options), .thread_ids = 200};
  cr_assert_eq(onstack_profile_new(&options, &profile), ONSTACK_E_OPTIONS);
  options = (onstack_profile_options){.size = sizeof(options), .reserved0 = {1}};
  cr_assert_eq(onstack_profile_new(&options, &profile), ONSTACK_E_OPTIONS);
  options = (onstack_profile_options){.size = 0};
  cr_assert_eq(onstack_profile_new(&options, &profile), ONSTACK_E_OPTIONS);
  options = (onstack_profile_options){.size = 0xfffffff0};
  cr_assert_eq(onstack_profile_new(&options, &profile), ONSTACK_E_OPTIONS);
}

Test(profile_aggregate, structures_of_other_versions) {
  struct {
    onstack_profile_options known;
    uint8_t tail[16];
  } longer = {.known = {.size = sizeof(longer), .thread_names = ONSTACK_OFF}};
  onstack_profile *profile = profile_of(&longer.known);
  onstack_profile_free(profile);
  longer.tail[15] = 1;
  cr_assert_eq(onstack_profile_new(&longer.known, &profile), ONSTACK_E_OPTIONS);
  /* An older caller's structure ends before max_stacks; what follows in memory is not ours to read. */
  onstack_profile_options shorter = {.size = 8, .max_stacks = 1, .timeline_bytes = 77};
  profile = profile_of(&shorter);
  feed(profile, frames_a, 3);
  feed(profile, frames_b, 2);
  char *text = folded_text(profile, NULL);
  cr_assert_null(strstr(text, "too many"));
  free(text);
  onstack_profile_free(profile);
}
