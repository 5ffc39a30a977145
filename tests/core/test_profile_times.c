/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times of samples in written profiles: each at its microsecond with its weight, whatever the order; lost ones are counted. */
#include "test_profile_support.h"

#include <time.h>

#define MOST 4000

static const uint64_t frames[][2] = {{0x11000, 0x12001}, {0x21000, 0x22001}};

static onstack_profile *profile_with(uint32_t timeline_bytes) {
  onstack_profile_options options = {.size = sizeof(options), .timeline_bytes = timeline_bytes};
  return profile_of(&options);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void feed_at(onstack_profile *profile, size_t stack, uint64_t time_ns, uint32_t weight) {
  onstack_sample sample = sample_of(frames[stack], 2);
  sample.time_ns = time_ns;
  weigh(&sample, weight);
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
}

typedef struct moments {
  size_t count, samples;
  int64_t us[MOST];
  uint64_t weight[MOST];
  bool has_field;
} moments;

static void read_moments(cursor in, moments *out) {
  int64_t at = 0;
  out->has_field = true;
  while (in.at < in.end) {
    const uint64_t number = d_varint(&in), zigzag = number >> 1;
    at += (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    cr_assert_lt(out->count, MOST);
    out->us[out->count] = at;
    out->weight[out->count++] = number & 1 ? d_varint(&in) : 1;
  }
}

/* Of the profile's samples one behind the other, by fields alone. */
static moments *moments_of(onstack_profile *profile, const onstack_write_options *options) {
  memory into = {0};
  moments *out = calloc(1, sizeof(*out));
  cr_assert_eq(onstack_profile_write_pprof(profile, options, memory_write, &into), 0);
  cursor in = {(const uint8_t *)into.bytes, (const uint8_t *)into.bytes + into.length}, body = {NULL, NULL}, part;
  uint32_t field, inner;
  uint64_t number;
  while (d_field(&in, &field, &number, &body)) {
    if (field != 2) continue;
    out->samples++;
    while (d_field(&body, &inner, &number, &part))
      if (inner == ONSTACK_PPROF_SAMPLE_TIMES) read_moments(part, out);
  }
  free(into.bytes);
  return out;
}

static bool has_comment(onstack_profile *profile, const char *text) {
  bool found = false;
  decoded *out = write_and_decode(profile, NULL);
  for (size_t i = 0; i < out->comment_count; i++) found = found || strcmp(d_text(out, out->comments[i]), text) == 0;
  decoded_free(out);
  return found;
}

/* Against the wall clock both ends are written by: a microsecond for each of two roundings. */
static void expect_us(const moments *got, size_t i, uint64_t time_ns, uint64_t begun_ns) {
  const int64_t expected = (int64_t)(time_ns - begun_ns) / 1000;
  cr_assert_leq(llabs(got->us[i] - got->us[0] - expected), 1, "%zu: %ld, expected %ld", i, (long)(got->us[i] - got->us[0]),
                (long)expected);
}

Test(profile_times, are_those_of_the_samples) {
  static const int64_t steps_us[] = {0, 10000, 1, 0, 5000000, -20, 70, 3600000000, 10100, 10101};
  onstack_profile *profile = profile_with(ONSTACK_TIMELINE_BYTES);
  uint64_t times[1000], at = now_ns();
  for (size_t i = 0; i < 1000; i++) {
    at += (uint64_t)(steps_us[i % 10] * 1000);
    times[i] = at;
    feed_at(profile, 0, at, i % 7 == 3 ? (uint32_t)(i * 1000) : 1);
  }
  moments *got = moments_of(profile, NULL);
  cr_assert_eq(got->samples, 1);
  cr_assert_eq(got->count, 1000);
  for (size_t i = 0; i < 1000; i++) {
    expect_us(got, i, times[i], times[0]);
    cr_assert_eq(got->weight[i], i % 7 == 3 ? i * 1000 : 1);
  }
  cr_assert(got->us[0] >= 0 && got->us[0] < 1000000, "since the profile was made");
  cr_assert(has_comment(profile, "onstack.timeline kept=1000 lost=0"));
  free(got);
  onstack_profile_free(profile);
}

Test(profile_times, are_of_their_stack_and_move_with_a_take) {
  onstack_profile *profile = profile_with(ONSTACK_TIMELINE_BYTES), *taken;
  const uint64_t at = now_ns();
  feed_at(profile, 0, at, 1);
  feed_at(profile, 1, at + 5000000, 1);
  feed_at(profile, 0, at + 9000000, 2);
  cr_assert_eq(onstack_profile_take(profile, &taken), 0);
  feed_at(profile, 1, at + 50000000, 1);
  moments *first = moments_of(taken, NULL), *second = moments_of(profile, NULL);
  cr_assert_eq(first->samples, 2);
  cr_assert_eq(first->count, 3);
  expect_us(first, 1, at + 9000000, at);
  expect_us(first, 2, at + 5000000, at);
  cr_assert_eq(second->count, 1);
  cr_assert(has_comment(profile, "onstack.timeline kept=1 lost=0"));
  onstack_profile_clear(profile);
  feed_at(profile, 0, now_ns() + 7000000, 1);
  moments *third = moments_of(profile, NULL);
  cr_assert(third->count == 1 && third->us[0] >= 7000 && third->us[0] < 1000000, "%ld", (long)third->us[0]);
  free(first);
  free(second);
  free(third);
  onstack_profile_free(taken);
  onstack_profile_free(profile);
}

Test(profile_times, count_from_the_start_that_is_written) {
  onstack_profile *profile = profile_with(ONSTACK_TIMELINE_BYTES);
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  const int64_t before = ((int64_t)real.tv_sec - 100) * 1000000000;
  for (int i = 0; i < 20; i++) feed_at(profile, 0, now_ns(), 1);
  const onstack_write_options options = {.size = sizeof(options), .start_time_unix_ns = before};
  moments *got = moments_of(profile, &options);
  cr_assert_eq(got->count, 20);
  for (size_t i = 0; i < got->count; i++)
    cr_assert(got->us[i] > 99000000 && got->us[i] < 102000000, "%ld", (long)got->us[i]);
  free(got);
  onstack_profile_free(profile);
}

Test(profile_times, are_not_there_unless_wanted) {
  onstack_profile *profile = profile_with(0);
  feed_at(profile, 0, now_ns(), 1);
  moments *got = moments_of(profile, NULL);
  cr_assert(got->samples == 1 && !got->has_field);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->comment_count, 0);
  decoded_free(out);
  free(got);
  onstack_profile_free(profile);
}

/* A profile goes on without times when their room is used up, and says how many it does not have. */
Test(profile_times, without_room_are_counted) {
  onstack_profile *profile = profile_with(200);
  const uint64_t at = now_ns();
  char comment[64];
  for (size_t i = 0; i < 1000; i++) feed_at(profile, i % 2, at + i * 1000000, 1);
  moments *got = moments_of(profile, NULL);
  cr_assert(got->count > 10 && got->count < 200, "%zu", got->count);
  snprintf(comment, sizeof(comment), "onstack.timeline kept=%zu lost=%zu", got->count, 1000 - got->count);
  cr_assert(has_comment(profile, comment), "%s", comment);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->samples[0].values[0] + out->samples[1].values[0], 1000);
  decoded_free(out);
  free(got);
  onstack_profile_free(profile);
}

/* Also of the stack that has what came after the last distinct one. */
Test(profile_times, are_kept_of_too_many_stacks) {
  onstack_profile_options options = {.size = sizeof(options), .max_stacks = 1, .timeline_bytes = 4096};
  onstack_profile *profile = profile_of(&options);
  const uint64_t at = now_ns();
  for (size_t i = 0; i < 10; i++) feed_at(profile, i % 2, at + i * 1000000, 1);
  moments *got = moments_of(profile, NULL);
  cr_assert(got->samples == 2 && got->count == 10);
  free(got);
  onstack_profile_free(profile);
}
