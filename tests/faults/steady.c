/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A session in its steady state allocates nothing, whatever threads come and go: a host that forks leaves its child the locks
 * of an allocator as they are at that instant, and not every allocator puts them in order there (gcc's address sanitizer does
 * not).
 */
#include "allocate.h"

#include <onstack/heap.h>
#include <onstack/onstack.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t samples;

static int steady_count(void *unused, const onstack_sample *sample) {
  (void)unused;
  __atomic_add_fetch(&samples, sample->weight, __ATOMIC_RELAXED);
  return 0;
}

static double steady_cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *steady_burn(void *seconds) {
  const double end = steady_cpu() + *(double *)seconds;
  for (uintptr_t address = 4096; steady_cpu() < end; address = (address + 4096) % (1 << 20)) {
    for (volatile int i = 0; i < 1000000; i++) continue;
    onstack_heap_allocated((void *)address, 100); /* while no heap session runs this does nothing */
  }
  return NULL;
}

static void steady_rounds(int count, double seconds) {
  pthread_t threads[3];
  for (int round = 0; round < count; round++) {
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, steady_burn, &seconds);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  }
}

/* On a clock: 0, and what was allocated, or an error. */
static int steady_try(onstack_clock clock, uint64_t *allocations) {
  static plan plan; /* the library's threads look at it */
  onstack_options options;
  onstack_session *session = NULL;
  onstack_options_init(&options, sizeof(options));
  options.clock = clock;
  options.frequency = clock == ONSTACK_CLOCK_HEAP ? 0 : 250;
  options.heap_interval = clock == ONSTACK_CLOCK_HEAP;
  options.sink = steady_count;
  int result = onstack_session_start(&options, &session);
  if (result != 0) return result;
  steady_rounds(4, 0.1);
  plan.host = (int32_t)syscall(SYS_gettid); /* makes the threads */
  plan.seen = 0;
  allocate_under(&plan);
  plan.armed = 1;
  steady_rounds(10, 0.05);
  plan.armed = 0;
  *allocations = plan.seen;
  return onstack_session_free(session);
}

int main(void) {
  static const struct {
    onstack_clock clock;
    const char *name;
  } clocks[] = {{ONSTACK_CLOCK_CPU, "cpu"},
                {ONSTACK_CLOCK_WALL_SIGNAL, "wall-signal"},
                {ONSTACK_CLOCK_WALL, "wall"},
                {ONSTACK_CLOCK_HEAP, "heap"}};
  int failed = 0;
  for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
    uint64_t allocations = 0;
    samples = 0;
    const int result = steady_try(clocks[i].clock, &allocations);
    const int wrong = result != 0 || samples == 0 || allocations > 0;
    printf("steady: %s clock: %s, %llu ticks, %llu allocations\n", clocks[i].name, wrong ? "WRONG" : "ok",
           (unsigned long long)samples, (unsigned long long)allocations);
    failed |= wrong;
  }
  return failed;
}
