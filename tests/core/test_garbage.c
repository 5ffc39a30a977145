/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frame pointers that hold anything: code without frame pointers uses the register for data. Nothing may crash, no frame
 * may be invented, and the sample says why it ends. A crash kills the test's own process and is reported.
 */
#include "support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(garbage, .init = t_setup);

static const double burn_seconds = 0.3;

/* Burns with the frame pointer set to `value`; nothing in the loop touches memory or calls. */
__attribute__((noinline)) static void burn_with(uint64_t value, double cpu_seconds) {
  double end = t_thread_cpu() + cpu_seconds;
  do {
    uint64_t count = 3000000;
#if defined(__x86_64__)
    __asm__ volatile("push %%rbp\n\t"
                     "mov %1, %%rbp\n\t"
                     "1: dec %0\n\t"
                     "jnz 1b\n\t"
                     "pop %%rbp"
                     : "+r"(count)
                     : "r"(value)
                     : "cc", "memory");
#else
    __asm__ volatile("mov x9, x29\n\t"
                     "mov x29, %1\n\t"
                     "1: subs %0, %0, #1\n\t"
                     "b.ne 1b\n\t"
                     "mov x29, x9"
                     : "+r"(count)
                     : "r"(value)
                     : "cc", "x9", "memory");
#endif
  } while (t_thread_cpu() < end);
}

static onstack_stats burn_sampled(const char *unwinder, uint64_t value, double cpu_seconds) {
  onstack_options options = t_options(1000, NULL, NULL);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  burn_with(value, cpu_seconds);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.ticks, (uint64_t)(cpu_seconds * 600), "%lu ticks show nothing", stats.ticks);
  return stats;
}

/*
 * Nearly all samples end for `reason`; the few others fell between two loops. With `rules` the register is used where
 * the code says that the frame hangs on it, as it does here; what it finds then is its own affair, but it must live.
 */
static void ends_for(uint64_t value, onstack_truncation reason) {
  burn_sampled("rules", value, burn_seconds / 2);
  onstack_stats stats = burn_sampled("frame_pointer", value, burn_seconds);
  cr_assert_geq(stats.truncated_by[reason] * 10, stats.samples * 8, "%lx: %lu of %lu samples for reason %u", value,
                stats.truncated_by[reason], stats.samples, reason);
}

static uint8_t *map(size_t bytes, int protection) {
  uint8_t *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(memory, MAP_FAILED);
  return memory;
}

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

/* A mapping above this stack: what lies below it fails earlier, on "not rising". */
static uint8_t *map_above(size_t bytes, int protection) {
  uint64_t here = number(__builtin_frame_address(0)) & ~(uint64_t)4095;
  for (uint64_t at = here + (1u << 24); at < here + (1ull << 40); at += 1u << 24) {
    void *memory = mmap((void *)(uintptr_t)at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != MAP_FAILED) return memory;
  }
  /* No room above the main stack: the caller runs on a thread's stack instead. */
  return NULL;
}

/* Threads' stacks lie below other mappings, so every case runs on a thread. */
typedef struct garbage_case {
  void (*run)(void);
} garbage_case;
static void *run_case(void *data) {
  ((garbage_case *)data)->run();
  return NULL;
}
static void on_thread(void (*run)(void)) {
  pthread_t thread;
  garbage_case in = {run};
  pthread_create(&thread, NULL, run_case, &in);
  pthread_join(thread, NULL);
}

static void unaligned(void) {
  ends_for(0x123457, ONSTACK_TRUNCATED_MISALIGNED);
  ends_for(number(__builtin_frame_address(0)) + 4, ONSTACK_TRUNCATED_MISALIGNED);
  ends_for(UINT64_MAX, ONSTACK_TRUNCATED_MISALIGNED);
}
Test(garbage, unaligned) { on_thread(unaligned); }

static void low(void) {
  ends_for(8, ONSTACK_TRUNCATED_NOT_RISING);
  ends_for(0xfff8, ONSTACK_TRUNCATED_NOT_RISING);
}
Test(garbage, below_64_kib) { on_thread(low); }

static void near_the_end(void) {
  ends_for(0xfffffffffffffff8u, ONSTACK_TRUNCATED_UNREADABLE);
  ends_for(0xfffffffffffffff0u, ONSTACK_TRUNCATED_UNREADABLE);
  ends_for(0x7ffffffffffff8u, ONSTACK_TRUNCATED_UNREADABLE);
  ends_for(0xffff800000000000u, ONSTACK_TRUNCATED_UNREADABLE);
}
Test(garbage, near_2_to_the_64) { on_thread(near_the_end); }

static void unmapped(void) {
  uint8_t *memory = map_above(8192, PROT_READ);
  cr_assert_not_null(memory);
  munmap(memory, 8192);
  ends_for(number(memory) + 64, ONSTACK_TRUNCATED_UNREADABLE);
}
Test(garbage, unmapped) { on_thread(unmapped); }

static void forbidden(void) {
  uint8_t *memory = map_above(8192, PROT_NONE);
  cr_assert_not_null(memory);
  ends_for(number(memory) + 64, ONSTACK_TRUNCATED_UNREADABLE);
  /* A record that straddles into it. */
  mprotect(memory, 4096, PROT_READ | PROT_WRITE);
  ends_for(number(memory) + 4096 - 8, ONSTACK_TRUNCATED_UNREADABLE);
}
Test(garbage, a_page_that_may_not_be_read) { on_thread(forbidden); }

static uint64_t some_code(void) { return number(__builtin_return_address(0)); }

static void loops(void) {
  uint64_t *memory = (uint64_t *)(void *)map_above(8192, PROT_READ | PROT_WRITE);
  uint64_t code = some_code();
  cr_assert_not_null(memory);
  memory[0] = number(&memory[0]);
  memory[1] = code;
  ends_for(number(&memory[0]), ONSTACK_TRUNCATED_NOT_RISING);
  memory[0] = number(&memory[8]); /* two that point at each other */
  memory[8] = number(&memory[0]);
  memory[9] = code;
  ends_for(number(&memory[0]), ONSTACK_TRUNCATED_NOT_RISING);
  memory[0] = number(&memory[1]); /* overlapping records */
  ends_for(number(&memory[0]), ONSTACK_TRUNCATED_NOT_RISING);
}
Test(garbage, self_loop_and_loop_of_two) { on_thread(loops); }

static void bad_returns(void) {
  uint64_t *memory = (uint64_t *)(void *)map_above(8192, PROT_READ | PROT_WRITE);
  static const uint64_t returns[] = {1, 0x8000, 0xffffffffffffffffu, 0x123456789abcu};
  cr_assert_not_null(memory);
  memory[0] = number(&memory[8]);
  for (size_t i = 0; i < sizeof(returns) / sizeof(returns[0]); i++) {
    memory[1] = returns[i];
    ends_for(number(memory), ONSTACK_TRUNCATED_BAD_RETURN);
  }
  memory[1] = number(memory); /* readable, not code */
  ends_for(number(memory), ONSTACK_TRUNCATED_BAD_RETURN);
  memory[1] = 0; /* {not zero, 0} is no root */
  ends_for(number(memory), ONSTACK_TRUNCATED_BAD_RETURN);
}
Test(garbage, returns_outside_code) { on_thread(bad_returns); }

static void stale_stack(void) {
  uint8_t *here = __builtin_frame_address(0);
  ends_for(number(here) - 65536, ONSTACK_TRUNCATED_NOT_RISING);
}
Test(garbage, below_the_stack_pointer) { on_thread(stale_stack); }

static void chain_is_deep(void) {
  uint64_t *memory = (uint64_t *)(void *)map_above(1 << 20, PROT_READ | PROT_WRITE);
  uint64_t code = some_code();
  cr_assert_not_null(memory);
  for (uint64_t i = 0; i < 4096; i++) {
    memory[i * 4] = number(&memory[(i + 1) * 4]);
    memory[i * 4 + 1] = code;
  }
  ends_for(number(memory), ONSTACK_TRUNCATED_DEPTH);
}
Test(garbage, more_frames_than_the_depth) { on_thread(chain_is_deep); }

/* A file that shrank: the page is mapped, a load of it is SIGBUS. */
static void truncated_file(void) {
  uint8_t *place = map_above(8192, PROT_NONE);
  int file = memfd_create("truncated", MFD_CLOEXEC);
  cr_assert_not_null(place);
  cr_assert_eq(ftruncate(file, 8192), 0);
  cr_assert_neq(mmap(place, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0), MAP_FAILED);
  cr_assert_eq(ftruncate(file, 0), 0);
  ends_for(number(place) + 128, ONSTACK_TRUNCATED_UNREADABLE);
  close(file);
}
Test(garbage, a_truncated_file) { on_thread(truncated_file); }

/* Inside the stack's own bounds, which were asked for while all of it could be read: only the probe can tell. */
static void forbidden_inside(void) {
  volatile uint8_t room[5 * 4096];
  uint8_t *page = (uint8_t *)(((uintptr_t)room + 2 * 4095) & ~(uintptr_t)4095);
  room[0] = 1;
  onstack_options options = t_options(1000, NULL, NULL);
  options.unwinder = "frame_pointer";
  onstack_session *session = t_start(&options);
  t_burn(0.5); /* long enough for the bounds to be known */
  cr_assert_eq(mprotect(page, 4096, PROT_NONE), 0);
  uint64_t before = t_stats(session).truncated_by[ONSTACK_TRUNCATED_UNREADABLE];
  burn_with(number(page) + 64, 0.35);
  onstack_stats stats = t_stats(session);
  cr_assert_eq(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  t_finish(session);
  cr_assert_gt(stats.truncated_by[ONSTACK_TRUNCATED_UNREADABLE], before + 50);
}
Test(garbage, a_page_of_the_stack_itself) { on_thread(forbidden_inside); }

/* Pages are asked for in pairs: of this one the frame is on the first, and its caller's on the second. */
static void forbidden_above(void) {
  volatile uint8_t room[6 * 4096];
  uint8_t *page = (uint8_t *)(((uintptr_t)room + 3 * 4096 + 4095) & ~(uintptr_t)4095);
  uint64_t *record = (uint64_t *)(void *)(page - 1024);
  t_collector *collector = t_collector_new();
  room[0] = 1;
  onstack_options options = t_options(1000, t_collect, collector);
  options.unwinder = "frame_pointer";
  onstack_session *session = t_start(&options);
  t_burn(0.5); /* long enough for the bounds to be known */
  record[0] = number(page) + 64;
  record[1] = some_code();
  const uint64_t code = record[1];
  cr_assert_eq(mprotect(page, 4096, PROT_NONE), 0);
  burn_with(number(record), 0.35);
  cr_assert_eq(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  t_finish(session);
  size_t ended = 0;
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    ended += sample->truncation == ONSTACK_TRUNCATED_UNREADABLE && sample->frame_count == 2 && sample->frames[1] == code;
  }
  cr_assert_gt(ended, 50);
}
Test(garbage, a_page_of_the_stack_above_one_with_a_frame) { on_thread(forbidden_above); }

/* Anything at all, for a while. */
static void random_values(void) {
  unsigned seed = 20261;
  uint8_t *memory = map(1 << 16, PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < 1 << 16; i++) memory[i] = (uint8_t)rand_r(&seed);
  onstack_options options = t_options(1000, NULL, NULL), rules = options;
  options.unwinder = "frame_pointer";
  rules.unwinder = "rules";
  onstack_session *session = t_start(&options), *other = t_start(&rules);
  for (int i = 0; i < 60; i++) {
    uint64_t wild = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed) << 3;
    uint64_t stack = number(__builtin_frame_address(0)) + (uint64_t)(rand_r(&seed) % 8192) * 8;
    burn_with(i % 3 == 0 ? wild : i % 3 == 1 ? stack : number(memory) + (uint64_t)(rand_r(&seed) % 8192) * 8, 0.02);
  }
  cr_assert_gt(t_finish(other).ticks, 600);
  cr_assert_gt(t_finish(session).ticks, 600);
}
Test(garbage, random) { on_thread(random_values); }
