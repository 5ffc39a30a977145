/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forks from four threads at once while the process is sampled: no child is lost, none hangs, none ends by a signal.
 * Usage: storm [forks, default 100000] [stop|follow] [hertz, default 250; 0: a heap session, of each allocation]
 *              [MiB of memory, default 0]
 * Every 64th child looks at its session; all allocate. Prints one line; 1: a child went wrong, killed by SIGALRM: hung.
 */
#include "onstack/onstack.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STORM_THREADS 4
#define STORM_HANG_SECONDS 30u

typedef struct forker {
  pthread_t thread;
  long forks;
  int bad; /* wait status of the first child that went wrong */
} forker;

static onstack_session *session;
static int follows;
static volatile long done;

static double now_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int look(void) {
  onstack_stats stats = {.size = sizeof(stats)};
  if (onstack_session_stats(session, &stats) != 0 || stats.running != (uint32_t)follows) return 2;
  if (onstack_session_stop(session) != (follows ? 0 : ONSTACK_E_STOPPED)) return 3;
  return onstack_session_free(session) == 0 ? 0 : 4;
}

static void allocate(void) {
  for (int i = 1; i < 20; i++) {
    char *volatile block = malloc((size_t)i * 100);
    block = realloc(block, (size_t)i * 300);
    free(block);
  }
}

static void *forks(void *data) {
  forker *f = data;
  for (long i = 0; i < f->forks && f->bad == 0; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(STORM_HANG_SECONDS);
      allocate();
      _exit(i % 64 == 0 ? look() : 0);
    }
    allocate();
    if (child < 0 || waitpid(child, &f->bad, 0) != child) f->bad = -1;
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void *watches(void *unused) {
  for (long before = -1;; before = done) {
    for (unsigned left = STORM_HANG_SECONDS + 5; left > 0;) left = sleep(left); /* a tick may cut it short */
    if (done == before) raise(SIGALRM);
  }
  return unused;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 100000;
  size_t bytes = argc > 4 ? (size_t)atol(argv[4]) << 20 : 0;
  forker forkers[STORM_THREADS] = {{.forks = count / STORM_THREADS}};
  onstack_options options;
  pthread_t watcher;
  int bad = 0;
  char *memory = bytes ? malloc(bytes) : NULL;
  if (memory) memset(memory, 1, bytes);
  onstack_options_init(&options, sizeof(options));
  follows = argc > 2 && strcmp(argv[2], "follow") == 0;
  options.fork = follows ? ONSTACK_FORK_FOLLOW : ONSTACK_FORK_STOP;
  options.frequency = argc > 3 ? (uint32_t)atoi(argv[3]) : 250;
  if (options.frequency == 0) {
    options.clock = ONSTACK_CLOCK_HEAP;
    options.heap_interval = 1;
  }
  int result = onstack_session_start(&options, &session);
  if (result != 0) return fprintf(stderr, "storm: %s\n", onstack_strerror(result)), 1;
  pthread_create(&watcher, NULL, watches, NULL);
  double begin = now_of(CLOCK_MONOTONIC), cpu = now_of(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < STORM_THREADS; i++) {
    forkers[i].forks = count / STORM_THREADS;
    pthread_create(&forkers[i].thread, NULL, forks, &forkers[i]);
  }
  for (int i = 0; i < STORM_THREADS; i++) {
    pthread_join(forkers[i].thread, NULL);
    if (forkers[i].bad) bad = forkers[i].bad;
  }
  double took = now_of(CLOCK_MONOTONIC) - begin;
  cpu = now_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stop(session);
  onstack_session_stats(session, &stats);
  printf("storm: %ld forks (%s, %u Hz, %zu MiB) in %.1f s: %s; ", done, follows ? "follow" : "stop", options.frequency,
         bytes >> 20, took, bad ? "FAILED" : "none lost, none hung");
  if (options.frequency == 0)
    printf("%lu allocations\n", (unsigned long)stats.ticks);
  else
    printf("%.2f s sampled of %.2f s\n", (double)stats.ticks * (double)stats.period * 1e-9, cpu);
  if (bad) printf("storm: a child ended with status 0x%x\n", bad);
  free(memory);
  return bad != 0 || stats.ticks == 0;
}
