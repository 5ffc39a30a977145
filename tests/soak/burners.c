/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code whose registers hold anything, as code without frame pointers has them. */
#include "soak.h"

#include <stdlib.h>

/* Frame pointer and the register of the lazy resolver's CFA are `fp` and `bx` for some hundred microseconds. The old frame
   pointer waits in a register: the stack below may be a red zone. */
__attribute__((noinline)) static void burners_spin(uint64_t fp, uint64_t bx) {
  uint64_t count = 400000;
#if defined(__x86_64__)
  __asm__ volatile("mov %2, %%rbx\n\t"
                   "xchg %%rbp, %1\n\t"
                   "1: dec %0\n\t"
                   "jnz 1b\n\t"
                   "xchg %%rbp, %1"
                   : "+r"(count), "+r"(fp)
                   : "r"(bx)
                   : "cc", "memory", "rbx");
#else
  __asm__ volatile("mov x9, x29\n\t"
                   "mov x10, x30\n\t"
                   "mov x30, %2\n\t"
                   "mov x29, %1\n\t"
                   "1: subs %0, %0, #1\n\t"
                   "b.ne 1b\n\t"
                   "mov x29, x9\n\t"
                   "mov x30, x10"
                   : "+r"(count)
                   : "r"(fp), "r"(bx)
                   : "cc", "memory", "x9", "x10");
#endif
}

void soak_burn_wildly(unsigned *seed) {
  for (int i = 0; i < 4; i++) burners_spin(soak_somewhere(seed), soak_somewhere(seed));
}

typedef struct burners_life {
  soak_stack stack;
  soak_worker *worker;
} burners_life;

static void *burners_live(void *data) {
  soak_worker *worker = ((burners_life *)data)->worker;
  while (!soak_resting) {
    soak_burn_wildly(&worker->seed);
    soak_beat(worker);
  }
  return NULL;
}

/* On a guarded stack (threads.c says why). */
void soak_run_burner(soak_worker *worker) {
  burners_life life = {.worker = worker};
  if (soak_stack_start(&life.stack, (size_t)256 << 10, burners_live, &life))
    soak_stack_join(&life.stack);
  else
    soak_fail("no thread for a burner");
}
