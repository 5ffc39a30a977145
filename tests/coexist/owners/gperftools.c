/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Beside gperftools' CPU profiler, in every order of start and stop. It installs its handler in a static constructor
 * or at its first start, never removes it, and ticks by ITIMER_PROF. It counts no overruns, so on a busy machine half of its ticks
 * are lost without us; exactly one sample of its must come of each signal that we forward.
 */
#include "../session.h"
#include "../support.h"

#include <gperftools/profiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Words of the file: header 0, 3, 0, period in us, 0; a record for each stack: count, depth, addresses; last 0, 1, 0. */
static long theirs_samples(const char *path) {
  uintptr_t header[5], record[2], address;
  long samples = 0;
  FILE *file = fopen(path, "rb");
  if (!file || fread(header, sizeof(*header), 5, file) != 5) return -1;
  while (fread(record, sizeof(*record), 2, file) == 2 && record[0] != 0) {
    samples += (long)record[0];
    for (uintptr_t i = 0; i < record[1]; i++)
      if (fread(&address, sizeof(address), 1, file) != 1) break;
  }
  fclose(file);
  return samples;
}

/* In the orders a window "b" with theirs alone, or none. */
static void order(const char *steps, bool theirs_alone) {
  char path[] = "gperftools.XXXXXX", name[100], copy[100];
  onstack_session *session = NULL;
  onstack_stats stats = {.size = sizeof(stats)};
  double cpu = 0;
  bool running = false;
  long theirs = 0;
  int file = mkstemp(path);
  if (file < 0) exit(2);
  close(file);
  snprintf(copy, sizeof(copy), "%s", steps);
  for (char *step = strtok(copy, " "); step; step = strtok(NULL, " ")) {
    double before = thread_cpu();
    if (!strcmp(step, "b")) burn(0.8);
    if (running) cpu += thread_cpu() - before;
    if (!strcmp(step, "O+")) session = start(500, ONSTACK_DEFAULT), running = true;
    if (!strcmp(step, "O-")) stats = finish(session, steps), running = false;
    if (!strcmp(step, "P+")) ProfilerStart(path);
    if (!strcmp(step, "P-")) ProfilerStop(), theirs = theirs_samples(path);
  }
  unlink(path);
  long forwarded = (long)stats.forwarded, direct = theirs - forwarded;
  double share = share_of(&stats, cpu);
  snprintf(name, sizeof(name), "gperftools %s", steps);
  check(share > 0.9 && share < 1.1 && (theirs_alone ? direct > 5 : direct >= -2 && direct <= 40), name,
        "ours %.3f of the CPU time; theirs %ld samples, %ld forwarded", share, theirs, forwarded);
}

int main(void) {
  order("P+ b P- O+ b O-", true);
  order("O+ b O- P+ b P-", true);
  order("P+ b O+ b P- b O-", true);
  order("P+ b O+ b O- b P-", true);
  order("O+ b P+ b P- b O-", false);
  order("O+ b P+ b O- b P-", true);
  return check_status();
}
