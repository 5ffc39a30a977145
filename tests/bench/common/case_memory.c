/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Resident memory that a running profiler adds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "burn.h"

typedef struct resident {
  double anonymous_kib, file_kib;
} resident;

static double field_kib(const char *text, const char *name) {
  const char *at = strstr(text, name);
  if (!at) bench_fail("%s is missing in /proc/self/smaps_rollup", name);
  return strtod(at + strlen(name), NULL);
}

/*
 * smaps_rollup walks the page tables. RssAnon and RssFile of /proc/self/status say the same but are kept for each CPU
 * and may lag behind by hundreds of KiB on some kernels. Read without stdio, whose buffers would count.
 */
static resident read_resident(void) {
  char text[4096];
  int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (length <= 0) bench_fail("/proc/self/smaps_rollup cannot be read");
  close(file);
  text[length] = '\0';
  double all = field_kib(text, "\nRss:"), anonymous = field_kib(text, "\nAnonymous:");
  return (resident){.anonymous_kib = anonymous, .file_kib = all - anonymous};
}

int bench_case_memory(const bench_options *options) {
  bench_counts counts = {0};
  bench_needs needs = {0};
  burn_cpu_ns(50000000);
  read_resident(); /* its own pages are in before the first reading */
  resident before = read_resident();

  bench_start(options, &needs);
  uint64_t started = bench_now_ns();
  burn_cpu_ns((uint64_t)(options->seconds * 1e9));
  while (bench_now_ns() < started + 1000000000u) bench_sleep_ns(10000000);
  resident after = read_resident();
  bench_stop(&counts);
  if (counts.samples == 0) bench_fail("no sample was taken in %g s of CPU time", options->seconds);

  double anonymous = after.anonymous_kib - before.anonymous_kib, file = after.file_kib - before.file_kib;
  bench_emit("added", "KiB", anonymous + file);
  bench_emit("anonymous", "KiB", anonymous);
  bench_emit("file", "KiB", file);
  return 0;
}
