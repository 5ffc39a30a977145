/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs without Go: the other owner of SIGPROF is owner.c, the mix says which manners it has. */
#include "plain.h"

#include "driver.h"
#include "owner.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS 2
static owner_style style;
static pid_t workers[WORKERS];
static atomic_int worker_count;
static __thread bool known;
static long long samples_before;

static void work(void) {
  if (!known) {
    known = true;
    static atomic_int place;
    workers[atomic_fetch_add(&place, 1) % WORKERS] = (pid_t)syscall(SYS_gettid);
    atomic_fetch_add(&worker_count, 1); /* after the id is there */
  }
  matrix_burn();
}

/* The owner's timers belong to threads, so these live as long as the program; what starts and stops is their work. */
static atomic_int working, resting;

static void work_or_rest(void) {
  if (!known || atomic_load_explicit(&working, memory_order_relaxed)) {
    work();
    return;
  }
  atomic_fetch_add(&resting, 1);
  usleep(10000); /* long, for at rest nothing is to tick */
  atomic_fetch_sub(&resting, 1);
}

static int plain_load_start(const char *mix) {
  (void)mix;
  atomic_store(&working, 1);
  return 0;
}

static void plain_load_stop(void) {
  atomic_store(&working, 0);
  while (atomic_load(&resting) < WORKERS) usleep(1000);
}

static int plain_profile_start(void) {
  samples_before = owner_samples();
  return owner_start(style, workers, WORKERS);
}

static long long plain_profile_stop(void) {
  owner_stop();
  return owner_samples() - samples_before;
}

static bool choose_style(const char *mix) {
  static const char *const names[] = {"bare", "polite", "chain"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(mix, names[i])) return style = (owner_style)i, true;
  return false;
}

int matrix_plain_main(int argc, char **argv) {
  const matrix_host host = {
      .profile_start = plain_profile_start,
      .profile_stop = plain_profile_stop,
      .load_start = plain_load_start,
      .load_stop = plain_load_stop,
      .describe = owner_describe,
  };
  if (argc < 2 || !choose_style(argv[1])) {
    fprintf(stderr, "usage: %s bare|polite|chain STEP...\n", argv[0]);
    return 2;
  }
  if (matrix_threads_start(WORKERS, work_or_rest) != 0) return 2;
  while (atomic_load(&worker_count) < WORKERS) usleep(100);
  int result = matrix_main(argc, argv, &host);
  matrix_threads_stop();
  return result;
}
