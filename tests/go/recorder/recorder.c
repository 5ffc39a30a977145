/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "recorder.h"

#include "onstack/onstack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Samples one behind the other: {tid, truncation, count, addresses}. Written by the sink only, read after the stop. */
static uint64_t *recorder_words;
static size_t recorder_used, recorder_room;
static onstack_session *recorder_session;

static int recorder_sink(void *data, const onstack_sample *sample) {
  (void)data;
  size_t need = 3 + sample->frame_count;
  if (recorder_room - recorder_used < need) {
    size_t room = recorder_room * 2 + need + 65536;
    uint64_t *words = realloc(recorder_words, room * sizeof(*words));
    if (!words) return -ENOMEM;
    recorder_words = words;
    recorder_room = room;
  }
  uint64_t *at = recorder_words + recorder_used;
  at[0] = (uint64_t)sample->tid;
  at[1] = sample->truncation;
  at[2] = sample->frame_count;
  memcpy(at + 3, sample->frames, sample->frame_count * sizeof(*at));
  recorder_used += need;
  return 0;
}

int recorder_start(unsigned frequency) {
  onstack_options options;
  int result = onstack_options_init(&options, sizeof(options));
  if (result < 0) return result;
  options.frequency = frequency;
  options.max_depth = ONSTACK_MAX_DEPTH;
  options.buffer_bytes = 16u << 20;
  options.sink = recorder_sink;
  recorder_used = 0;
  return onstack_session_start(&options, &recorder_session);
}

static int recorder_compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

/* Code may be gone by now: the kernel copies it or says so. */
static void recorder_write_code(FILE *out, uint64_t address) {
  uint8_t bytes[8];
  struct iovec local = {bytes, sizeof(bytes)}, remote = {(void *)(uintptr_t)(address - 8), sizeof(bytes)};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)sizeof(bytes)) return;
  fprintf(out, "code %llx ", (unsigned long long)address);
  for (int i = 0; i < 8; i++) fprintf(out, "%02x", bytes[i]);
  fputc('\n', out);
}

static int recorder_write_samples(FILE *out) {
  uint64_t *all = malloc((recorder_used + 1) * sizeof(*all));
  size_t count = 0;
  if (!all) return -ENOMEM;
  for (size_t i = 0; i < recorder_used;) {
    const uint64_t *at = recorder_words + i;
    fprintf(out, "sample %llu %llu", (unsigned long long)at[0], (unsigned long long)at[1]);
    for (uint64_t k = 0; k < at[2]; k++) {
      fprintf(out, " %llx", (unsigned long long)at[3 + k]);
      all[count++] = at[3 + k];
    }
    fputc('\n', out);
    i += 3 + at[2];
  }
  qsort(all, count, sizeof(*all), recorder_compare);
  for (size_t i = 0; i < count; i++)
    if (i == 0 || all[i] != all[i - 1]) recorder_write_code(out, all[i]);
  free(all);
  return 0;
}

static int recorder_write_maps(FILE *out) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return -errno;
  while (fgets(line, sizeof(line), maps)) fprintf(out, "map %s", line);
  fclose(maps);
  return 0;
}

int recorder_stop(const char *path) {
  onstack_stats stats = {.size = sizeof(stats)};
  int result = onstack_session_stop(recorder_session);
  if (result < 0) return result;
  onstack_session_stats(recorder_session, &stats);
  onstack_session_free(recorder_session);
  recorder_session = NULL;
  FILE *out = fopen(path, "we");
  if (!out) return -errno;
  result = recorder_write_maps(out);
  if (result == 0) result = recorder_write_samples(out);
  fprintf(out, "stats %llu %llu %llu %llu\n", (unsigned long long)stats.ticks, (unsigned long long)stats.recorded,
          (unsigned long long)stats.samples, (unsigned long long)stats.truncated);
  if (fclose(out) != 0 && result == 0) result = -errno;
  return result;
}
