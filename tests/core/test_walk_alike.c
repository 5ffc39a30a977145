/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reader `probe` takes most frames on the walker's short way (rules_run_hot), reader `copy` none: both must
   find the same stack, however deep they may go. */
#include "sampler/session/code_map_update.h"
#include "sampler/modules/modules.h"
#include "sampler/unwind/pc_cache.h"
#include "platform/context.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/walk.h"
#include "sampler/unwind/unwinder.h"
#include "onstack/traceback.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <ucontext.h>

#define DEPTH 128

typedef struct walked {
  onstack_walk_result result;
  uint64_t frames[DEPTH];
  uint8_t unwound_by[DEPTH];
} walked;

static onstack_stack_bounds nobody;

static void walk_with(const onstack_unwinder_ops *unwinder, const onstack_reader *reader, const onstack_registers *from,
                      uint32_t capacity, walked *out) {
  pthread_attr_t attributes;
  void *low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  onstack_memory memory = {.reader = reader, .bounds = &nobody, .copy_works = true};
  memory.ranges[0].low = (uint64_t)(uintptr_t)low;
  memory.ranges[0].high = (uint64_t)(uintptr_t)low + size;
  onstack_memory_enter_stack(&memory, from->sp);
  onstack_walk job = {
      .registers = from, .memory = &memory, .frames = out->frames, .capacity = capacity, .unwound_by = out->unwound_by};
  memset(out, 0xee, sizeof(*out));
  out->result = unwinder->run(&job);
}

static void walk(const onstack_reader *reader, const onstack_registers *from, uint32_t capacity, walked *out) {
  walk_with(&onstack_unwinder_rules, reader, from, capacity, out);
}

static void compare(void) {
  ucontext_t context;
  onstack_registers from;
  walked by_copy, by_probe;
  getcontext(&context);
  onstack_registers_from(&from, &context);
  for (uint32_t capacity = 1; capacity <= DEPTH; capacity += capacity < 8 ? 1 : 17) {
    walk(&onstack_reader_copy, &from, capacity, &by_copy);
    walk(&onstack_reader_probe, &from, capacity, &by_probe);
    cr_assert_eq(by_copy.result.frame_count, by_probe.result.frame_count);
    cr_assert_eq(by_copy.result.truncation, by_probe.result.truncation);
    uint32_t count = by_copy.result.frame_count;
    cr_assert_arr_eq(by_copy.frames, by_probe.frames, count * sizeof(uint64_t));
    /* Marks differ when the first of them has just been the first to meet an address; what they mark may not. */
    for (uint32_t i = 0; i + 1 < count; i++) cr_assert_eq(by_copy.unwound_by[i] & 0x7f, by_probe.unwound_by[i] & 0x7f);
  }
  cr_assert_eq(by_copy.result.truncation, ONSTACK_TRUNCATED_NOT);
  cr_assert_gt(by_copy.result.frame_count, 20);
}

/* Frames of many sizes, with and without a frame pointer, over several pages. */
static __attribute__((noinline)) int deep(int n, void (*at_end)(void)) {
  volatile char room[400];
  room[n % 400] = (char)n;
  if (n == 0) {
    at_end();
    return room[0];
  }
  return deep(n - 1, at_end) + room[n % 400];
}

static __attribute__((noinline)) int wide(int n, void (*at_end)(void)) {
  volatile char room[n * 100 + 16]; /* a frame pointer, since its size is not known */
  room[0] = (char)n;
  return (n == 0 ? deep(12, at_end) : wide(n - 1, at_end)) + room[0];
}

static void prove_all(void) {
  const uint64_t seal = onstack_pc_seal(onstack_pc_epoch);
  for (size_t i = 0; i < ONSTACK_PC_CACHE_ENTRIES; i++) {
    onstack_pc_entry *entry = &onstack_pc_cache[i];
    uint64_t value = entry->value;
    if (!(value & ONSTACK_PC_UNPROVEN)) continue;
    uint64_t pc = entry->check ^ onstack_pc_mix(0, value, seal);
    onstack_pc_remember(pc, value & ~(uint64_t)ONSTACK_PC_UNPROVEN, seal);
  }
}

Test(walk_alike, both_ways_find_the_same_stack) {
  cr_assert_eq(onstack_traceback_prepare(), 0);
  wide(9, compare); /* new addresses: the short way is not taken */
  prove_all();
  wide(9, compare); /* known ones: taken wherever it can be */
}

/* This program has frame pointers, but that cannot be known of it. */
Test(walk_alike, before_rules_are_derived_a_stack_is_cut_and_not_guessed) {
  ucontext_t context;
  onstack_registers from;
  walked early, late;
  getcontext(&context);
  onstack_registers_from(&from, &context);
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  cr_assert(onstack_modules_refresh(0), "tables are missing");
  walk(&onstack_reader_probe, &from, DEPTH, &early);
  cr_assert_eq(early.result.truncation, ONSTACK_TRUNCATED_PENDING);
  cr_assert_eq(early.result.frame_count, 1);
  while (onstack_modules_refresh((size_t)1 << 20)) continue;
  walk(&onstack_reader_probe, &from, DEPTH, &late);
  cr_assert_eq(late.result.truncation, ONSTACK_TRUNCATED_NOT);
  cr_assert_gt(late.result.frame_count, 4);
}

/* What is unknown for this one moment may have rules: its frame pointers are not to be followed. */
Test(walk_alike, while_the_map_is_written_a_stack_is_cut_and_not_guessed) {
  ucontext_t context;
  onstack_registers from;
  walked meanwhile, after;
  getcontext(&context);
  onstack_registers_from(&from, &context);
  cr_assert_eq(onstack_traceback_prepare(), 0);
  onstack_pc_epoch++; /* nothing is remembered */
  onstack_modules.lock.sequence++;
  walk(&onstack_reader_probe, &from, DEPTH, &meanwhile);
  onstack_modules.lock.sequence++;
  cr_assert_eq(meanwhile.result.truncation, ONSTACK_TRUNCATED_PENDING, "reason %u, %u frames", meanwhile.result.truncation,
               meanwhile.result.frame_count);
  cr_assert_eq(meanwhile.result.frame_count, 1);
  onstack_pc_epoch++;
  walk(&onstack_reader_probe, &from, DEPTH, &after);
  cr_assert_eq(after.result.truncation, ONSTACK_TRUNCATED_NOT);
}

/* Code of a module begins no stack there; whether a module holds it cannot be known at that moment. */
Test(walk_alike, while_the_map_is_written_a_chain_of_frame_pointers_is_not_called_whole) {
  walked meanwhile, after;
  const uint64_t code = (uint64_t)(uintptr_t)&compare + 1;
  uint64_t records[2][2] = {{(uint64_t)(uintptr_t)records[1], code}, {0, code}};
  const onstack_registers from = {.pc = code, .sp = (uint64_t)(uintptr_t)records, .fp = (uint64_t)(uintptr_t)records};
  cr_assert_eq(onstack_traceback_prepare(), 0);
  onstack_modules.lock.sequence++;
  walk_with(&onstack_unwinder_frame_pointer, &onstack_reader_copy, &from, DEPTH, &meanwhile);
  onstack_modules.lock.sequence++;
  walk_with(&onstack_unwinder_frame_pointer, &onstack_reader_copy, &from, DEPTH, &after);
  cr_assert_eq(after.result.truncation, ONSTACK_TRUNCATED_NOT_RISING, "reason %u, %u frames", after.result.truncation,
               after.result.frame_count);
  cr_assert_eq(meanwhile.result.frame_count, after.result.frame_count);
  cr_assert_eq(meanwhile.result.truncation, ONSTACK_TRUNCATED_PENDING, "reason %u", meanwhile.result.truncation);
}
