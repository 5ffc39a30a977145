/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which addresses may be code: the look-up alone, against /proc/self/maps, and when mappings change. */
#include "sampler/session/code_map_update.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/walk.h"
#include "support.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(code_map, .init = t_setup);

static bool is_code(uint64_t address) {
  onstack_code_range none = {0, 0};
  return onstack_code_is_executable(address, &none);
}

static void set_ranges(uint32_t count, uint64_t low, uint64_t length, uint64_t distance) {
  onstack_code.lock.sequence = 0;
  onstack_code.count = count;
  for (uint32_t i = 0; i < count; i++)
    onstack_code.ranges[i] = (onstack_code_range){low + i * distance, low + i * distance + length};
}

Test(code_map, look_ups_hit_the_ranges_and_nothing_else) {
  static const uint32_t counts[] = {1, 2, 3, 7, 64, ONSTACK_CODE_RANGES};
  for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
    set_ranges(counts[c], 0x100000, 0x1000, 0x3000);
    for (uint32_t i = 0; i < counts[c]; i++) {
      uint64_t low = 0x100000 + i * 0x3000ull;
      cr_assert(is_code(low));
      cr_assert(is_code(low + 0xfff));
      cr_assert_not(is_code(low - 1));
      cr_assert_not(is_code(low + 0x1000));
    }
    cr_assert_not(is_code(0));
    cr_assert_not(is_code(UINT64_MAX));
  }
  set_ranges(0, 0, 0, 0);
  cr_assert_not(is_code(0x100000));
}

Test(code_map, the_last_hit_is_kept_and_only_good_for_its_range) {
  set_ranges(3, 0x100000, 0x1000, 0x3000);
  onstack_code_range last = {0, 0};
  cr_assert(onstack_code_is_executable(0x103010, &last));
  cr_assert_eq(last.low, 0x103000);
  cr_assert_eq(last.high, 0x104000);
  cr_assert(onstack_code_is_executable(0x103fff, &last));
  cr_assert_not(onstack_code_is_executable(0x104000, &last));
  cr_assert(onstack_code_is_executable(0x100000, &last), "another range");
}

Test(code_map, a_miss_asks_for_a_fresh_look_and_a_rewrite_accepts_all) {
  set_ranges(2, 0x100000, 0x1000, 0x3000);
  onstack_code.stale = 0;
  is_code(0x100010);
  cr_assert_eq(onstack_code.stale, 0);
  is_code(0x200000);
  cr_assert_eq(onstack_code.stale, 1);
  onstack_code.lock.sequence = 1;
  cr_assert(is_code(0x999999), "a walk in that moment keeps its frames");
}

/* ---- this process ---- */

Test(code_map, it_says_what_the_kernel_says) {
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  uint8_t *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int local = 0;
  cr_assert(is_code((uint64_t)(uintptr_t)t_burn));
  cr_assert(is_code((uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "qsort")), "libc");
  cr_assert_not(is_code((uint64_t)(uintptr_t)&local));
  cr_assert_not(is_code((uint64_t)(uintptr_t)data));
  cr_assert_not(is_code((uint64_t)(uintptr_t)environ));
  for (uint32_t i = 0; i < onstack_code.count; i++) {
    cr_assert_lt(onstack_code.ranges[i].low, onstack_code.ranges[i].high);
    if (i) cr_assert_lt(onstack_code.ranges[i - 1].high, onstack_code.ranges[i].low, "sorted, disjoint, merged");
  }
}

static bool plain_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  memcpy(words, (const void *)(uintptr_t)address, 16);
  return true;
}
static const onstack_reader plain_reader = {.name = "plain", .read_pair = plain_pair};

/* Until they are written nobody knows whether the number beside a frame pointer is code. */
Test(code_map, a_rewrite_makes_no_frames) {
  static onstack_stack_bounds nobody;
  uint64_t frames[8], record[2] = {0, 0x7000deadbeef};
  onstack_memory memory = {.reader = &plain_reader, .bounds = &nobody};
  const onstack_registers registers = {.pc = 0x100010, .sp = (uint64_t)(uintptr_t)record, .fp = (uint64_t)(uintptr_t)record};
  const onstack_walk walk = {.registers = &registers, .memory = &memory, .frames = frames, .capacity = 8};
  set_ranges(2, 0x100000, 0x1000, 0x3000);
  onstack_walk_result result = onstack_walk_run(&onstack_unwinder_frame_pointer, &walk);
  cr_assert_eq(result.frame_count, 1);
  cr_assert_eq(result.truncation, ONSTACK_TRUNCATED_BAD_RETURN);
  onstack_code.lock.sequence = 1;
  result = onstack_walk_run(&onstack_unwinder_frame_pointer, &walk);
  cr_assert_eq(result.frame_count, 1, "%u frames", result.frame_count);
  cr_assert_eq(result.truncation, ONSTACK_TRUNCATED_PENDING);
}

Test(code_map, new_code_is_found_and_gone_code_forgotten) {
  uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t address = (uint64_t)(uintptr_t)page + 16;
  onstack_code_map_refresh(NULL);
  cr_assert_not(is_code(address));
  mprotect(page, 4096, PROT_READ | PROT_EXEC);
  onstack_code_map_refresh(NULL);
  cr_assert(is_code(address));
  munmap(page, 4096);
  onstack_code_map_refresh(NULL);
  cr_assert_not(is_code(address));
}

/* More ranges than the table holds: too lenient beyond, never cutting a stack short. */
Test(code_map, more_mappings_than_the_table_holds) {
  const size_t many = ONSTACK_CODE_RANGES + 500;
  uint8_t *base = mmap(NULL, many * 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < many; i++) cr_assert_eq(mprotect(base + i * 8192, 4096, PROT_READ | PROT_EXEC), 0);
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  cr_assert_leq(onstack_code.count, ONSTACK_CODE_RANGES);
  for (size_t i = 0; i < many; i++) cr_assert(is_code((uint64_t)(uintptr_t)base + i * 8192 + 8), "%zu", i);
  cr_assert(is_code((uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "qsort")));
}

/* Code that is written after start, as a JIT compiler does: its caller's frames are whole after the next look. */
#if defined(__x86_64__)
Test(code_map, frames_through_code_that_came_after_start) {
  static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp,%rbp */
                                 0xff, 0xd7,             /* call *%rdi */
                                 0x5d, 0xc3};            /* pop %rbp; ret */
  static const char *const walkers[] = {"frame_pointer", "rules"};
  for (int w = 0; w < 2; w++) {
    t_collector *collector = t_collector_new();
    onstack_options options = t_options(250, t_collect, collector);
    options.unwinder = walkers[w];
    onstack_session *session = t_start(&options);
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof(code));
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    void (*jit)(void (*)(double), double);
    memcpy(&jit, &page, sizeof(jit));
    jit(t_burn, 0.3); /* the first walks miss, and ask */
    t_sleep(0.15);
    uint64_t known = (uint64_t)(t_now() * 1e9);
    jit(t_burn, 0.5);
    t_finish(session);
    uint64_t through = 0, late = 0;
    for (size_t i = 0; i < collector->count; i++) {
      const t_sample *sample = &collector->samples[i];
      if (sample->time_ns < known) continue;
      late++;
      for (uint32_t f = 1; f + 1 < sample->frame_count && f < 4; f++)
        through += sample->frames[f] == (uint64_t)(uintptr_t)page + 6;
    }
    cr_assert_gt(late, 30);
    cr_assert_geq(through * 100, late * 90, "%s: %lu of %lu", walkers[w], through, late);
    munmap(page, 4096);
  }
}
#endif
