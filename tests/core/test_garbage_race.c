/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frame pointers into memory that another thread unmaps and maps all the time: what was readable when it was probed may
 * be gone when it is read. Run more rounds with ONSTACK_TEST_REPEAT=20.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

TestSuite(garbage_race, .init = t_setup);

#define STACK ((size_t)256 << 10)
#define RACE ((size_t)128 << 10) /* a probe and a load for each page of it: many chances in a walk */

typedef struct race {
  uint8_t *base; /* one reservation: guard, stack, racing pages, guard */
  uint8_t *racing;
  int file;     /* < 0: anonymous */
  bool shrinks; /* truncate the file instead of unmapping it */
  bool fiber;   /* the racing pages are a stack that the thread has run on, and left */
  volatile bool begun, over;
  uint64_t flips;
  onstack_stats stats;
} race;

__attribute__((noinline)) static void spin_with(uint64_t value, double seconds) {
  double end = t_thread_cpu() + seconds;
  do {
    uint64_t count = 3000000;
#if defined(__x86_64__)
    __asm__ volatile("push %%rbp\n\tmov %1, %%rbp\n\t1: dec %0\n\tjnz 1b\n\tpop %%rbp"
                     : "+r"(count)
                     : "r"(value)
                     : "cc", "memory");
#else
    __asm__ volatile("mov x9, x29\n\tmov x29, %1\n\t1: subs %0, %0, #1\n\tb.ne 1b\n\tmov x29, x9"
                     : "+r"(count)
                     : "r"(value)
                     : "cc", "x9", "memory");
#endif
  } while (t_thread_cpu() < end);
}

static void place_back(race *r) {
  int flags = MAP_FIXED | (r->file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE);
  if (mmap(r->racing, RACE, PROT_READ | PROT_WRITE, flags, r->file, 0) == MAP_FAILED) abort();
  /* Every word leads on inside the racing pages, as far as the walk cares to go. */
  uint64_t *words = (uint64_t *)(void *)r->racing;
  for (size_t i = 0; i < RACE / 8; i += 512) {
    words[i] = (uint64_t)(uintptr_t)(r->racing + (i + 512) * 8 % RACE);
    words[i + 1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
  }
}

static void *flip(void *data) {
  race *r = data;
  while (!r->begun) t_sleep(0.001);
  while (!r->over) {
    if (r->shrinks) {
      if (ftruncate(r->file, 0) != 0 || ftruncate(r->file, RACE) != 0) abort();
    } else {
      munmap(r->racing, RACE);
      place_back(r);
    }
    r->flips++;
  }
  return NULL;
}

/* As a coroutine that ends: its stack becomes one of this thread's, for the session's eyes. */
static void run_fiber(void) { spin_with(0, 0.2); }

static void live_on_racing_pages(race *r) {
  ucontext_t thread, fiber;
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = r->racing;
  fiber.uc_stack.ss_size = RACE;
  fiber.uc_link = &thread;
  makecontext(&fiber, run_fiber, 0);
  swapcontext(&thread, &fiber);
}

static void *spin(void *data) {
  race *r = data;
  if (r->fiber) live_on_racing_pages(r);
  r->begun = true;
  /* At the session's first look at this stack the racing pages are there. */
  spin_with((uint64_t)(uintptr_t)r->racing, 0.8);
  return NULL;
}

/* The stack ends where the racing pages begin: what is mapped there may be one mapping with it in the kernel's eyes. */
static void run_race(race *r, bool adjacent, const char *unwinder) {
  pthread_t spinner, flipper;
  pthread_attr_t attributes;
  size_t gap = adjacent ? 0 : 64 << 10;
  r->base = mmap(NULL, STACK + gap + RACE + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(r->base, MAP_FAILED);
  cr_assert_eq(mprotect(r->base + 4096, STACK, PROT_READ | PROT_WRITE), 0);
  r->racing = r->base + 4096 + STACK + gap;
  if (r->file >= 0) cr_assert_eq(ftruncate(r->file, RACE), 0);
  place_back(r);
  onstack_options options = t_options(1000, NULL, NULL);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  pthread_attr_init(&attributes);
  cr_assert_eq(pthread_attr_setstack(&attributes, r->base + 4096, STACK), 0);
  pthread_create(&spinner, &attributes, spin, r);
  pthread_create(&flipper, NULL, flip, r);
  pthread_join(spinner, NULL);
  r->over = true;
  pthread_join(flipper, NULL);
  r->stats = t_finish(session);
  cr_assert_gt(r->stats.ticks, 400, "%lu ticks", r->stats.ticks);
  cr_assert_gt(r->flips, 200, "%lu flips", r->flips);
  munmap(r->base, STACK + gap + RACE + 8192);
}

static void rounds(bool with_file, bool shrinks, bool adjacent, bool fiber) {
  for (unsigned i = 0; i < t_repeat(); i++) {
    race r = {.file = with_file ? memfd_create("racing", MFD_CLOEXEC) : -1, .shrinks = shrinks, .fiber = fiber};
    t_deadline(T_DEADLINE);
    run_race(&r, adjacent, i % 2 ? "rules" : "frame_pointer");
    if (with_file) close(r.file);
  }
}

Test(garbage_race, a_file_mapping_elsewhere) { rounds(true, false, false, false); }
Test(garbage_race, a_file_that_shrinks) { rounds(true, true, false, false); }
Test(garbage_race, a_file_mapping_right_above_the_stack) { rounds(true, false, true, false); }
Test(garbage_race, anonymous_memory_right_above_the_stack) { rounds(false, false, true, false); }
Test(garbage_race, a_stack_that_the_thread_has_left) { rounds(false, false, false, true); }
