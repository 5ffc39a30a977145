/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define THREADS_MAX 8
static pthread_t threads[THREADS_MAX];
static int threads_count;
static atomic_int threads_quit;

static void *threads_main(void *body) {
  while (!atomic_load_explicit(&threads_quit, memory_order_relaxed)) ((matrix_body)(uintptr_t)body)();
  return NULL;
}

int matrix_threads_start(int count, matrix_body body) {
  threads_quit = 0;
  for (threads_count = 0; threads_count < count; threads_count++)
    if (pthread_create(&threads[threads_count], NULL, threads_main, (void *)(uintptr_t)body) != 0) return -1;
  return 0;
}

void matrix_threads_stop(void) {
  threads_quit = 1;
  while (threads_count > 0) pthread_join(threads[--threads_count], NULL);
}
