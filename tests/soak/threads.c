/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that live for a moment, on stacks that are unmapped behind them; some have an alternate signal stack. */
#include "soak.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_AT_ONCE 24
#define THREADS_STACK ((size_t)64 << 10)
#define THREADS_GUARD ((size_t)16 << 10)

uint64_t soak_threads;

static void *threads_begin(void *data) {
  soak_stack *stack = data;
  int place = soak_posts_open();
  stack->run(stack->data);
  soak_posts_close(place);
  return NULL;
}

/* Guards at both ends: a stack that the kernel has merged with its neighbour is the one case that docs/ARCHITECTURE.md
   leaves open (memory above a stack, in the same mapping, that goes between a probe and the load). */
bool soak_stack_start(soak_stack *stack, size_t bytes, void *(*run)(void *), void *data) {
  pthread_attr_t attributes;
  stack->run = run;
  stack->data = data;
  stack->bytes = bytes + 2 * THREADS_GUARD;
  stack->base = mmap(NULL, stack->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack->base == MAP_FAILED) return false;
  pthread_attr_init(&attributes);
  bool started = mprotect(stack->base + THREADS_GUARD, bytes, PROT_READ | PROT_WRITE) == 0 &&
                 pthread_attr_setstack(&attributes, stack->base + THREADS_GUARD, bytes) == 0 &&
                 pthread_create(&stack->thread, &attributes, threads_begin, stack) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) munmap(stack->base, stack->bytes);
  return started;
}

void soak_stack_join(soak_stack *stack) {
  pthread_join(stack->thread, NULL);
  munmap(stack->base, stack->bytes);
}

typedef struct threads_life {
  soak_stack stack;
  unsigned seed;
} threads_life;

static void *threads_live(void *data) {
  threads_life *life = data;
  uint8_t small[16384];
  stack_t alternate = {.ss_sp = small, .ss_size = sizeof(small)};
  bool has_alternate = soak_random(&life->seed, 2);
  if (has_alternate) sigaltstack(&alternate, NULL);
  for (uint32_t i = soak_random(&life->seed, 4); i > 0; i--) soak_burn_wildly(&life->seed);
  alternate.ss_flags = SS_DISABLE;
  if (has_alternate) sigaltstack(&alternate, NULL);
  return NULL;
}

void soak_run_threads(soak_worker *worker) {
  threads_life lives[THREADS_AT_ONCE];
  while (!soak_resting) {
    size_t count = 1 + soak_random(&worker->seed, THREADS_AT_ONCE), started = 0;
    for (; started < count; started++) {
      lives[started].seed = (unsigned)rand_r(&worker->seed);
      if (!soak_stack_start(&lives[started].stack, THREADS_STACK, threads_live, &lives[started])) break;
    }
    if (started < count) soak_fail("only %zu of %zu threads", started, count);
    for (size_t i = 0; i < started; i++) soak_stack_join(&lives[i].stack);
    soak_count(&soak_threads, started);
    soak_beat(worker);
  }
}
