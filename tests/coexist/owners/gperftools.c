/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Beside gperftools' CPU profiler, in every order of start and stop. It installs its handler in a static constructor or at its
 * first start, never removes it, and ticks by ITIMER_PROF. It counts no overruns, so on a busy machine half of its ticks are
 * lost without us; exactly one sample of its must come of each signal that we forward, counted from edge to edge of each
 * stretch of time in which both run.
 */
#include "../session.h"
#include "../support.h"

#include <gperftools/profiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long theirs_samples(void) {
  struct ProfilerState state;
  ProfilerGetCurrentState(&state);
  return state.enabled ? state.samples_gathered : 0;
}

typedef struct counted {
  long beside, alone, forwarded; /* their samples while we run, and while we do not; what we forwarded while both run */
  double cpu;                    /* seconds burnt while we run */
} counted;

static void window(counted *sums, const onstack_session *session) {
  onstack_stats first = {.size = sizeof(first)}, last = first;
  const double cpu = thread_cpu();
  const long theirs = theirs_samples();
  if (session) onstack_session_stats(session, &first);
  burn(0.8);
  if (session) onstack_session_stats(session, &last);
  const long more = theirs_samples() - theirs;
  *(session ? &sums->beside : &sums->alone) += more;
  if (session) sums->cpu += thread_cpu() - cpu;
  if (more > 0) sums->forwarded += (long)(last.forwarded - first.forwarded);
}

/* In the orders a window "b" with theirs alone, or none. */
static void order(const char *steps, bool theirs_alone) {
  char path[] = "gperftools.XXXXXX", name[100], copy[100];
  onstack_session *session = NULL;
  onstack_stats stats = {.size = sizeof(stats)};
  counted sums = {0, 0, 0, 0};
  int file = mkstemp(path);
  if (file < 0) exit(2);
  close(file);
  snprintf(copy, sizeof(copy), "%s", steps);
  for (char *step = strtok(copy, " "); step; step = strtok(NULL, " ")) {
    if (!strcmp(step, "b")) window(&sums, session);
    if (!strcmp(step, "O+")) session = start(500, ONSTACK_DEFAULT);
    if (!strcmp(step, "O-")) stats = finish(session, steps), session = NULL;
    if (!strcmp(step, "P+")) ProfilerStart(path);
    if (!strcmp(step, "P-")) ProfilerStop();
  }
  unlink(path);
  /* Its handler stays where its static constructor put it, below ours: nothing reaches it directly. */
  const long off = sums.beside - sums.forwarded;
  double share = share_of(&stats, sums.cpu);
  snprintf(name, sizeof(name), "gperftools %s", steps);
  check(share > 0.9 && share < 1.1 && off >= -2 && off <= 2 && (!theirs_alone || sums.alone > 5), name,
        "ours %.3f of the CPU time; theirs %ld samples alone, %ld beside us, %ld forwarded", share, sums.alone, sums.beside,
        sums.forwarded);
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
