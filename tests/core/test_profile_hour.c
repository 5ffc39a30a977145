/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What ONSTACK_TIMELINE_BYTES is for: the times of an hour of 16 busy threads at 99 Hz, which share some thousand stacks. */
#include "support.h"
#include "test_profile_support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define THREADS 16u
#define HERTZ 99u
#define SECONDS 3600u
#define STACKS 5000u
#define FUNCTIONS 20000u
#define DEEPEST 60u
#define ALL (THREADS * HERTZ * SECONDS)
#define FILE_BYTES 30000000u /* with gzip, as files are: it makes little of times */
#define SAMPLE_BYTES 8.0     /* of the profile without gzip, its stacks among them, on average */
#define TIME_BYTES 5.0

static uint64_t mixed(uint64_t number) {
  number = (number ^ number >> 31) * 0x9e3779b97f4a7c15u;
  number = (number ^ number >> 29) * 0xbf58476d1ce4e5b9u;
  return number ^ number >> 32;
}

/* Few functions near the root, many near the leaf. */
static uint32_t make_stack(uint64_t stack, uint64_t frames[DEEPEST]) {
  const uint32_t depth = 10 + (uint32_t)(mixed(stack) % (DEEPEST - 10));
  for (uint64_t from_root = 0; from_root < depth; from_root++) {
    const uint64_t branch = stack % (1 + from_root * from_root * 2);
    frames[depth - 1 - from_root] = 0x400001 + 16 * (mixed(branch << 8 | from_root) % FUNCTIONS);
  }
  return depth;
}

/* Half of all samples go to an eighth of the stacks, and each thread has each of them. Which comes next does not hang on the
   last, as it does in programs: gaps, and with them times, are as long as they get. */
static uint64_t choose(uint64_t random) {
  const double part = (double)(random >> 11) / (double)(1ull << 53);
  return (uint64_t)(part * part * part * STACKS);
}

static void feed_seconds(onstack_profile *profile, uint64_t seconds) {
  static uint64_t frames[STACKS][DEEPEST];
  static uint32_t depths[STACKS];
  const uint64_t period_ns = 1000000000u / HERTZ;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t begun_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  for (uint64_t i = 0; i < STACKS; i++) depths[i] = make_stack(i, frames[i]);
  for (uint64_t tick = 0; tick < HERTZ * seconds; tick++) {
    for (uint64_t thread = 0; thread < THREADS; thread++) {
      const uint64_t random = mixed(tick * THREADS + thread + 1), stack = choose(random);
      onstack_sample sample = sample_of(frames[stack], depths[stack]);
      sample.period = sample.value = period_ns;
      sample.tid = (int32_t)(1000 + thread);
      sample.time_ns = begun_ns + (tick + 1) * period_ns + thread * 600000 + random % 50000;
      if (onstack_profile_sink(profile, &sample) != 0) cr_assert_fail("sample %lu", (unsigned long)tick);
    }
  }
}

typedef struct hour {
  uint64_t samples, weight, times, time_bytes, bytes, packed_bytes, kept, lost;
  int64_t first_us, last_us;
} hour;

static void read_times(cursor in, hour *out) {
  int64_t at_us = 0;
  out->time_bytes += (uint64_t)(in.end - in.at);
  for (; in.at < in.end; out->times++) {
    const uint64_t number = d_varint(&in), zigzag = number >> 1;
    at_us += (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    cr_assert_eq(number & 1, 0, "no sample weighs more than one");
    if (out->first_us == 0 || at_us < out->first_us) out->first_us = at_us;
    if (at_us > out->last_us) out->last_us = at_us;
  }
}

static void read_sample(cursor in, hour *out) {
  uint32_t field;
  uint64_t number;
  cursor body;
  out->samples++;
  while (d_field(&in, &field, &number, &body)) {
    if (field == 2) out->weight += d_varint(&body);
    if (field == ONSTACK_PPROF_SAMPLE_TIMES) read_times(body, out);
  }
}

static void read_comment(cursor in, hour *out) {
  static const char begin[] = "onstack.timeline ";
  char text[128];
  const size_t length = (size_t)(in.end - in.at);
  if (length >= sizeof(text) || strncmp((const char *)in.at, begin, sizeof(begin) - 1) != 0) return;
  memcpy(text, in.at, length);
  text[length] = '\0';
  cr_assert_eq(sscanf(text, "onstack.timeline kept=%lu lost=%lu", &out->kept, &out->lost), 2, "%s", text);
}

/* ONSTACK_HOUR_FILE: where a whole one is left, for who reads such files. */
static uint64_t packed_bytes(const memory *from) {
  char made[] = "/tmp/onstack-hour-XXXXXX", command[4200];
  struct stat status;
  const char *kept = getenv("ONSTACK_HOUR_FILE"), *path = kept ? kept : made;
  const int file = kept ? open(kept, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : mkstemp(made);
  cr_assert_geq(file, 0, "%s", path);
  snprintf(command, sizeof(command), "gzip -c >'%s'", path);
  FILE *gzip = popen(command, "w");
  cr_assert_not_null(gzip);
  cr_assert_eq(fwrite(from->bytes, 1, from->length, gzip), from->length);
  cr_assert_eq(pclose(gzip), 0);
  cr_assert_eq(fstat(file, &status), 0);
  close(file);
  if (!kept) unlink(path);
  return (uint64_t)status.st_size;
}

static hour hour_with(uint32_t timeline_bytes) {
  onstack_profile_options options = {.size = sizeof(options), .timeline_bytes = timeline_bytes};
  onstack_profile *profile = profile_of(&options);
  memory into = {0};
  hour out = {0};
  uint32_t field;
  uint64_t number;
  feed_seconds(profile, SECONDS);
  cr_assert_eq(onstack_profile_write_pprof(profile, NULL, memory_write, &into), 0);
  onstack_profile_free(profile);
  cursor in = {(const uint8_t *)into.bytes, (const uint8_t *)into.bytes + into.length}, body = {NULL, NULL};
  while (d_field(&in, &field, &number, &body)) {
    if (field == 2) read_sample(body, &out);
    if (field == 6) read_comment(body, &out);
  }
  out.bytes = into.length;
  out.packed_bytes = packed_bytes(&into);
  free(into.bytes);
  return out;
}

static void expect_all(const hour *got) {
  cr_assert_eq(got->weight, ALL, "a sample without a time is in the profile");
  cr_assert_eq(got->times, got->kept);
  cr_assert_eq(got->kept + got->lost, ALL);
}

Test(profile_hour, fits_with_all_its_times) {
  const hour got = hour_with(ONSTACK_TIMELINE_BYTES);
  const double each = (double)got.bytes / ALL, time = (double)got.time_bytes / (double)got.times;
  fprintf(stderr, "%lu bytes, %lu with gzip; %.2f a sample, %.2f of them its time; %lu stacks of threads\n",
          (unsigned long)got.bytes, (unsigned long)got.packed_bytes, each, time, (unsigned long)got.samples);
  expect_all(&got);
  cr_assert_eq(got.lost, 0);
  cr_assert_lt(got.packed_bytes, FILE_BYTES);
  cr_assert_leq(each, SAMPLE_BYTES);
  cr_assert_leq(time, TIME_BYTES);
  cr_assert(got.first_us > 0 && got.last_us > (SECONDS - 1) * 1000000ll && got.last_us < (SECONDS + 2) * 1000000ll);
}

Test(profile_hour, without_room_counts_what_has_no_time) {
  const hour got = hour_with(ONSTACK_TIMELINE_BYTES / 4);
  expect_all(&got);
  cr_assert(got.lost > ALL / 4 && got.kept > ALL / 8, "%lu kept", (unsigned long)got.kept);
}

/* CPU time of the sink for a sample, in nanoseconds. */
static double cost(uint32_t timeline_bytes) {
  const onstack_profile_options options = {.size = sizeof(options), .timeline_bytes = timeline_bytes};
  onstack_profile *profile = profile_of(&options);
  const uint64_t seconds = SECONDS / 24;
  feed_seconds(profile, 2); /* each stack is there */
  const double before = t_thread_cpu();
  feed_seconds(profile, seconds);
  const double ns = (t_thread_cpu() - before) * 1e9 / (double)(THREADS * HERTZ * seconds);
  onstack_profile_free(profile);
  return ns;
}

/* Who delivers samples writes times, not who is sampled. They cost a seventh more of what the sink takes, and a third where new
   pages are dear (in a virtual machine that others share). The limit is for what would be wrong everywhere, as a search for
   each time; the best of ten rounds counts, for other programs make them dearer. */
Test(profile_hour, times_cost_little) {
  double with = 1e9, without = 1e9;
  for (int round = 0; round < 10; round++) {
    const double each = cost(ONSTACK_TIMELINE_BYTES), plain = cost(0);
    if (each < with) with = each;
    if (plain < without) without = plain;
  }
  fprintf(stderr, "the sink takes %.0f ns for a sample with its time, %.0f ns without\n", with, without);
  cr_assert_lt(with, without * 2);
}
