/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host of the preloaded library: works on its first thread and on one more, prints a line and ends. Its own calls do
 * not fail; what fails from before the first constructor on is the preload's, and libc's on the preload's behalf.
 *
 * host-heap is the same with libc's malloc, which the library counts there, and allocates as it works.
 *
 * Usage: host SECONDS return|_exit|pthread_exit     status 7, and 0 after pthread_exit
 */
#ifdef HOST_HEAP
#include "plan.h"
#else
#include "allocate.h"
#endif

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOST_STATUS 7
#define HOST_BLOCK 1000

static plan host_alone; /* where no checker has made a plan */
static plan *host_plan = &host_alone;
static int32_t host_main;
static double host_seconds;

/* Before the constructors of all libraries; nothing of libc's that needs its own constructor may be called. */
static void host_prepare(void) {
  host_main = (int32_t)syscall(SYS_gettid);
  void *page = mmap(NULL, sizeof(plan), PROT_READ | PROT_WRITE, MAP_SHARED, PLAN_FD, 0);
  close(PLAN_FD);
  if (page == MAP_FAILED) return;
  host_plan = page;
#ifndef HOST_HEAP
  if (host_plan->allocations) allocate_under(host_plan);
#endif
  host_plan->armed = 1;
}
__attribute__((section(".preinit_array"), used)) static void (*const host_first)(void) = host_prepare;

static void host_begins(void) { host_plan->host = host_main; }
static void host_ends(void) { host_plan->host = 0; }

/* By the vDSO: the work itself makes no call, but for what libc's allocator asks of the kernel at first. */
static double host_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

__attribute__((noinline)) void host_works(double seconds) {
  double end = host_now() + seconds;
  while (host_now() < end) {
    for (volatile int i = 0; i < 1000; i++) continue;
#ifdef HOST_HEAP
    free(malloc(HOST_BLOCK));
#endif
  }
}

static void *host_is_born(void *data) {
  host_works(host_seconds / 2);
  return data;
}

/* Alone, its words wait for libc's exit, which must find the host's descriptors; else that write is one of those that fail. */
static void host_speaks(void) {
  if (host_plan == &host_alone)
    fputs("done\n", stdout);
  else if (write(STDOUT_FILENO, "done\n", 5) != 5)
    _exit(1);
}

int main(int argc, char **argv) {
  pthread_t born;
  const char *end = argc > 2 ? argv[2] : "return";
  host_seconds = argc > 1 ? strtod(argv[1], NULL) : 0;
  host_works(host_seconds / 2);
  host_begins();
  bool made = pthread_create(&born, NULL, host_is_born, NULL) == 0;
  host_ends();
  host_works(host_seconds);
  host_begins();
  if (made) pthread_join(born, NULL);
  host_speaks();
  host_plan->phase = PLAN_END;
  if (strcmp(end, "pthread_exit") == 0) pthread_exit(NULL);
  host_ends();
  if (strcmp(end, "_exit") == 0) _exit(HOST_STATUS);
  return HOST_STATUS;
}
