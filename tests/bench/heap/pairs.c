/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What allocation costs, whoever's malloc it is: PROGRAM MODE [key=value ...], one number on standard output. measure.py runs
 * it with and without a profiler.
 *
 *   pair     ns of CPU time for malloc(64) and free, of one block (live=1) or of the oldest of `live`, on `threads` threads:
 *            median of batches of `batch`, which hold several samples each
 *   sampled  ns for one malloc(64) under `depth` frames: bursts of 64, with a pause for whoever collects
 *   held     KiB resident when `mib` MiB are held in blocks of 4 KiB
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 64
#define MOST_LIVE 1024
#define MOST_THREADS 64
#define BATCHES 512
#define BURST 64
#define BURSTS 64
#define HELD 4096

static int threads = 1, live = 1, depth = 1, mib = 64, batch = 100000;
static double seconds = 0.3;

static double now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pause_ns(long ns) {
  const struct timespec pause = {ns / 1000000000, ns % 1000000000};
  nanosleep(&pause, NULL);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *values, int count) {
  qsort(values, (size_t)count, sizeof(*values), by_value);
  return values[count / 2];
}

/* ---- pair ---- */

static pthread_barrier_t together;

static void pair_batch(void *volatile *blocks) {
  for (int i = 0; i < batch; i++) {
    void *volatile *place = &blocks[i % live];
    free(*place);
    *place = malloc(SIZE);
  }
}

/* One place is not looked up in an array: the plain pair. */
static void pair_batch_of_one(void) {
  void *volatile block;
  for (int i = 0; i < batch; i++) {
    block = malloc(SIZE);
    free(block);
  }
}

static void *pair_thread(void *result) {
  static __thread void *volatile blocks[MOST_LIVE];
  static __thread double batches[BATCHES];
  int count = 0;
  pthread_barrier_wait(&together);
  const double end = now_ns(CLOCK_MONOTONIC) + seconds * 1e9;
  while (count < BATCHES && (count < 5 || now_ns(CLOCK_MONOTONIC) < end)) {
    const double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    if (live == 1)
      pair_batch_of_one();
    else
      pair_batch(blocks);
    batches[count++] = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / batch;
  }
  for (int i = 0; i < live; i++) free(blocks[i]);
  *(double *)result = middle(batches, count);
  return NULL;
}

static double pair(void) {
  pthread_t all[MOST_THREADS];
  double costs[MOST_THREADS];
  pthread_barrier_init(&together, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&all[i], NULL, pair_thread, &costs[i]) != 0) abort();
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  return middle(costs, threads);
}

/* ---- sampled ---- */

static void *volatile burst_blocks[BURST];

__attribute__((noinline, noclone)) static double burst(int frames) {
  double took;
  if (frames > 1) {
    took = burst(frames - 1);
  } else {
    const double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < BURST; i++) burst_blocks[i] = malloc(SIZE);
    took = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / BURST;
  }
  __asm__ volatile("" : "+m"(took));
  return took;
}

static double sampled(void) {
  double bursts[BURSTS];
  for (int i = 0; i < BURSTS; i++) {
    bursts[i] = burst(depth);
    for (int k = 0; k < BURST; k++) free(burst_blocks[k]);
    pause_ns(15000000);
  }
  return middle(bursts + BURSTS / 4, BURSTS - BURSTS / 4); /* the first meet what is done once */
}

/* ---- held ---- */

__attribute__((noinline, noclone)) static double held(int frames) {
  double kibibytes;
  if (frames > 1) {
    kibibytes = held(frames - 1);
  } else {
    unsigned long size, resident = 0;
    const int count = mib * 1024 * 1024 / HELD;
    for (int i = 0; i < count; i++) {
      char *block = malloc(HELD);
      memset(block, 1, HELD);
      if (i % 20000 == 0) pause_ns(20000000);
    }
    pause_ns(500000000);
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2) abort();
    fclose(file);
    kibibytes = (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
  }
  __asm__ volatile("" : "+m"(kibibytes));
  return kibibytes;
}

static int *setting(const char *text) {
  static const struct {
    const char *key;
    int *value;
  } settings[] = {{"threads=", &threads}, {"live=", &live}, {"depth=", &depth}, {"mib=", &mib}, {"batch=", &batch}};
  for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
    if (strncmp(text, settings[i].key, strlen(settings[i].key)) == 0) return settings[i].value;
  return NULL;
}

int pairs_main(int count, char **arguments) {
  for (int i = 2; i < count; i++) {
    int *place = setting(arguments[i]);
    if (place) *place = atoi(strchr(arguments[i], '=') + 1);
    if (strncmp(arguments[i], "seconds=", 8) == 0) seconds = atof(arguments[i] + 8);
  }
  if (count < 2 || threads < 1 || threads > MOST_THREADS || live < 1 || live > MOST_LIVE || batch < 1) return 2;
  pause_ns(300000000); /* a preloaded profiler has begun */
  const char *mode = arguments[1];
  const double result = strcmp(mode, "pair") == 0 ? pair() : strcmp(mode, "sampled") == 0 ? sampled() : held(depth);
  printf("%.6g\n", result);
  fflush(stdout);
  return 0;
}

#ifndef PAIRS_HOSTED
int main(int count, char **arguments) { return pairs_main(count, arguments); }
#endif
