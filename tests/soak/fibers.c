/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fibers: a thread that works on stacks of its own making, one after the other. What it has left is unmapped by another
 * thread, at once or a while later, while the records of the profiler still know it as a stack of that thread.
 */
#include "soak.h"

#include <sys/mman.h>
#include <ucontext.h>

#define FIBERS_LEFT 8u
#define FIBERS_BYTES ((size_t)64 << 10)

uint64_t soak_fibers;
static uint8_t *fibers_left[FIBERS_LEFT]; /* by the thread that works, for the thread that unmaps */

typedef struct fiber {
  ucontext_t here, back;
  unsigned seed;
  bool ended; /* not to be resumed */
} fiber;

static __thread fiber *fiber_running;

/* Where a fiber came from is on no stack: its root is makecontext's. */
static void fiber_live(void) {
  fiber *self = fiber_running;
  for (uint32_t i = soak_random(&self->seed, 4); i > 0; i--) {
    soak_burn(0.0004);
    swapcontext(&self->here, &self->back);
  }
  self->ended = true;
}

static void fibers_leave(uint8_t *stack) {
  for (uint32_t i = 0; i < FIBERS_LEFT; i++) {
    uint8_t *nothing = NULL;
    if (__atomic_compare_exchange_n(&fibers_left[i], &nothing, stack, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  }
  munmap(stack, FIBERS_BYTES);
}

static void fibers_work(soak_worker *worker) {
  fiber one = {.seed = soak_random(&worker->seed, ~0u)};
  uint8_t *stack = mmap(NULL, FIBERS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) {
    soak_fail("no stack for a fiber");
    return;
  }
  getcontext(&one.here);
  one.here.uc_stack.ss_sp = stack;
  one.here.uc_stack.ss_size = FIBERS_BYTES;
  one.here.uc_link = &one.back;
  makecontext(&one.here, fiber_live, 0);
  fiber_running = &one;
  for (uint32_t i = 1 + soak_random(&one.seed, 4); i > 0 && !one.ended; i--) {
    swapcontext(&one.back, &one.here);
    soak_burn(0.0002);
  }
  fibers_leave(stack);
  soak_count(&soak_fibers, 1);
}

static void fibers_unmap(soak_worker *worker) {
  uint8_t *stack = __atomic_exchange_n(&fibers_left[soak_random(&worker->seed, FIBERS_LEFT)], NULL, __ATOMIC_ACQ_REL);
  if (stack) munmap(stack, FIBERS_BYTES);
  if (soak_random(&worker->seed, 3) == 0) soak_sleep(0.0005);
}

void soak_run_fibers(soak_worker *worker) {
  while (!soak_resting) {
    if (worker->number == 0)
      fibers_work(worker);
    else
      fibers_unmap(worker);
    soak_beat(worker);
  }
}
