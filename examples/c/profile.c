/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that profiles itself: a session whose samples go into a profile, and the profile into a file.
 *
 *   profile OUTPUT [SECONDS]     a pprof file: go tool pprof -top OUTPUT
 *
 * It hashes three times as long as it sorts, so one can see whether the profile is right.
 */
#define _POSIX_C_SOURCE 200809L /* open and fdopen, which C11 does not have */
#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NUMBERS 4096

static volatile uint64_t result; /* so that the work is not optimized away */

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

__attribute__((noinline)) static void hash_numbers(const uint32_t *numbers, double until) {
  while (cpu_seconds() < until)
    for (int round = 0; round < 100; round++)
      for (size_t i = 0; i < NUMBERS; i++) result = (result ^ numbers[i]) * 0x100000001b3;
}

__attribute__((noinline)) static void sort_numbers(uint32_t *numbers, double until) {
  while (cpu_seconds() < until) {
    for (size_t i = 0; i < NUMBERS; i++) numbers[i] = (uint32_t)rand();
    for (size_t gap = NUMBERS / 2; gap > 0; gap /= 2)
      for (size_t i = gap; i < NUMBERS; i++)
        for (size_t j = i; j >= gap && numbers[j - gap] > numbers[j]; j -= gap) {
          uint32_t larger = numbers[j - gap];
          numbers[j - gap] = numbers[j];
          numbers[j] = larger;
        }
  }
}

static void work(double seconds) {
  static uint32_t numbers[NUMBERS];
  double start = cpu_seconds();
  sort_numbers(numbers, start + seconds / 4);
  hash_numbers(numbers, start + seconds);
}

static int write_bytes(void *file, const void *bytes, size_t length) {
  return fwrite(bytes, 1, length, file) == length ? 0 : 1;
}

static int write_file(onstack_profile *profile, const char *path) {
  /* Through no link, and for its owner alone: a profile tells where the code lies. */
  int opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *file = opened < 0 ? NULL : fdopen(opened, "wb");
  if (!file) return ONSTACK_E_OUTPUT;
  int error = onstack_profile_write_pprof(profile, NULL, write_bytes, file);
  if (fclose(file) != 0 && error == 0) error = ONSTACK_E_OUTPUT;
  return error;
}

/* If the counters of a session do not look well, its profile is not worth a look. */
static void print_statistics(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  if (onstack_session_stats(session, &stats) < 0) return;
  fprintf(stderr, "%" PRIu64 " ticks, %" PRIu64 " recorded in %" PRIu64 " samples, %" PRIu64 " cut stacks\n", stats.ticks,
          stats.recorded, stats.samples, stats.truncated);
}

static int profile_work(onstack_profile *profile, double seconds) {
  onstack_options options;
  onstack_session *session;
  int error = onstack_options_init(&options, sizeof(options));
  if (error < 0) return error;
  options.frequency = 199;
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  error = onstack_session_start(&options, &session);
  if (error < 0) return error;
  work(seconds);
  onstack_session_stop(session);
  print_statistics(session);
  return onstack_session_free(session);
}

int main(int count, char **arguments) {
  if (count < 2) {
    fprintf(stderr, "usage: profile OUTPUT [SECONDS]\n");
    return 2;
  }
  onstack_profile *profile;
  int error = onstack_profile_new(NULL, &profile);
  if (error < 0) {
    fprintf(stderr, "profile: %s\n", onstack_strerror(error));
    return 1;
  }
  error = profile_work(profile, count > 2 ? atof(arguments[2]) : 2);
  if (error == 0) error = write_file(profile, arguments[1]);
  if (error < 0) fprintf(stderr, "profile: %s\n", onstack_strerror(error));
  onstack_profile_free(profile);
  return error < 0;
}
