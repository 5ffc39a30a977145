/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

#include "native.h"

#include "_cgo_export.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*testnative_job)(size_t argument);

static volatile uint64_t testnative_sink;

static int64_t testnative_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((noinline)) void testnative_spin(size_t milliseconds) {
  for (int64_t end = testnative_now_ms() + (int64_t)milliseconds; testnative_now_ms() < end;) {
    uint64_t x = testnative_sink;
    for (int i = 0; i < 200000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    testnative_sink = x;
  }
}

/* Keeps libc's malloc lock busy: ticks and crashes land inside it. */
__attribute__((noinline)) void testnative_churn(size_t milliseconds) {
  void *kept[64] = {0};
  unsigned turn = 0;
  for (int64_t end = testnative_now_ms() + (int64_t)milliseconds; testnative_now_ms() < end;) {
    for (int i = 0; i < 5000; i++, turn++) {
      free(kept[turn % 64]);
      kept[turn % 64] = malloc(24 + turn % 4096);
    }
  }
  for (int i = 0; i < 64; i++) free(kept[i]);
}

/* Waits, in as many pieces as signals make of it. */
__attribute__((noinline)) void testnative_sleep(size_t milliseconds) {
  struct timespec left = {.tv_sec = (time_t)(milliseconds / 1000), .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0) testnative_sink++;
}

__attribute__((noinline)) void testnative_call(size_t handle) {
  testnativeCallback(handle);
  testnative_sink++;
}

__attribute__((noinline)) void testnative_crash(size_t unused) {
  (void)unused;
  *(volatile int *)testnative_sink = 1;
}

/* The arrays make the frames of different sizes; what follows each call keeps it from being a jump. */
__attribute__((noinline)) void testnative_inner(testnative_job job, size_t argument) {
  volatile char room[40];
  room[0] = 1;
  job(argument);
  testnative_sink += (uint64_t)room[0] - 1;
}

__attribute__((noinline)) void testnative_middle(testnative_job job, size_t argument) {
  volatile char room[200];
  room[7] = 1;
  testnative_inner(job, argument);
  testnative_sink += (uint64_t)room[7] - 1;
}

__attribute__((noinline)) void testnative_outer(testnative_job job, size_t argument) {
  volatile char room[24];
  room[3] = 1;
  testnative_middle(job, argument);
  testnative_sink += (uint64_t)room[3] - 1;
}

void testnative_run_spin(int milliseconds) { testnative_outer(testnative_spin, (size_t)milliseconds); }
void testnative_run_sleep(int milliseconds) { testnative_outer(testnative_sleep, (size_t)milliseconds); }
void testnative_run_malloc(int milliseconds) { testnative_outer(testnative_churn, (size_t)milliseconds); }
void testnative_run_callback(size_t handle) { testnative_outer(testnative_call, handle); }
void testnative_run_crash(void) { testnative_outer(testnative_crash, 0); }

static void *testnative_thread(void *milliseconds) {
  testnative_run_spin((int)(intptr_t)milliseconds);
  return NULL;
}

int testnative_run_thread(int milliseconds) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, testnative_thread, (void *)(intptr_t)milliseconds);
  return error ? error : pthread_join(thread, NULL);
}
