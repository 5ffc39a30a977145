/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/traceback_walk.h"

#include "platform/defs.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/walk.h"

ONSTACK_INTERNAL_DEFINE onstack_traceback_state onstack_traceback;

/* Before any table is looked up; see sampler/modules/modules.c. */
ONSTACK_HANDLER void onstack_traceback_enter(void) { onstack_dekker_add(&onstack_traceback.inside, 1u); }

/* Not below 0: a handler that interrupts a walk may fork, and the walk goes on in the child. */
ONSTACK_HANDLER void onstack_traceback_leave(void) {
  uint32_t inside = onstack_dekker_load(&onstack_traceback.inside);
  while (inside > 0 && !onstack_cas(&onstack_traceback.inside, &inside, inside - 1)) continue;
}

void onstack_traceback_after_fork(void) {
  onstack_store_relaxed(&onstack_traceback.inside, 0u);
  onstack_store_relaxed(&onstack_traceback.preparing, 0);
}

/* Deeper walks are cut: Go asks for 32 frames (runtime/symtab.go, cgoTraceback's buffer). */
#define TRACEBACK_DEPTH 64u

static ONSTACK_HANDLER onstack_stack_range traceback_bounds(uint64_t sp) {
  const uint64_t end = onstack_memory_stack_end(sp);
  return end ? (onstack_stack_range){sp & ~(ONSTACK_PAGE - 1), end} : (onstack_stack_range){0, 0};
}

/* Shortens the stack to what can be believed. */
static ONSTACK_HANDLER onstack_walk_result traceback_walk(const onstack_registers *from, uint64_t *frames,
                                                          uint32_t capacity) {
  onstack_memory memory;
  uint8_t unwound_by[TRACEBACK_DEPTH];
  if (capacity > TRACEBACK_DEPTH) capacity = TRACEBACK_DEPTH;
  onstack_walk_prepare(&memory, onstack_traceback.reader, onstack_traceback.copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  memory.ranges[0] = traceback_bounds(from->sp);
  const onstack_walk walk = {
      .registers = from, .memory = &memory, .frames = frames, .capacity = capacity, .unwound_by = unwound_by};
  onstack_walk_result result = onstack_walk_run(&onstack_unwinder_rules, &walk);
  onstack_walk_check(memory.copy_works, frames, unwound_by, &result);
  return result;
}

/* Return addresses become look-up addresses, in place. Returns how many come before Go's. */
static ONSTACK_HANDLER uint32_t traceback_take(uint64_t *frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0) frames[i]--;
    if (onstack_code_find_go(frames[i])) return i;
  }
  return count;
}

ONSTACK_HANDLER uint32_t onstack_traceback_run(const onstack_registers *from, uint64_t *frames, uint32_t capacity) {
  uint32_t taken = 0;
  if (capacity == 0) return 0;
  onstack_traceback_enter();
  if (onstack_observe(&onstack_traceback.ready)) {
    const onstack_walk_result result = traceback_walk(from, frames, capacity);
    taken = traceback_take(frames, result.frame_count);
    if (result.truncation == ONSTACK_TRUNCATED_BAD_RETURN) onstack_store_relaxed(&onstack_traceback.stale, 1u);
  }
  onstack_traceback_leave();
  return taken;
}

static ONSTACK_HANDLER uint64_t traceback_word(uint64_t address) { return *(const volatile uint64_t *)(uintptr_t)address; }

/*
 * Plain loads: the frame is one of the caller's own, live while it runs, and its rule says where its words are. Only
 * the simple rules; functions that realign their stack have others.
 */
static ONSTACK_HANDLER bool traceback_apply(const onstack_rule *rule, onstack_registers *registers) {
  uint64_t cfa;
  if (rule->cfa == ONSTACK_CFA_SP)
    cfa = registers->sp + (uint64_t)(int64_t)rule->cfa_offset;
  else if (rule->cfa == ONSTACK_CFA_FP)
    cfa = registers->fp + (uint64_t)(int64_t)rule->cfa_offset;
  else
    return false;
  if (rule->ra == ONSTACK_AT_SAME || rule->fp == ONSTACK_AT_FP || cfa <= registers->sp || cfa & 7) return false;
  registers->pc = onstack_address_strip(traceback_word(cfa + (uint64_t)((int64_t)rule->ra * 8))) - 1;
  if (rule->fp != ONSTACK_AT_SAME) registers->fp = traceback_word(cfa + (uint64_t)((int64_t)rule->fp * 8));
  registers->sp = cfa;
  return true;
}

ONSTACK_HANDLER bool onstack_traceback_step(onstack_registers *registers) {
  onstack_module module = {.low = 0};
  bool stepped = false;
  onstack_traceback_enter();
  if (onstack_observe(&onstack_traceback.ready)) {
    const onstack_rule *rule = onstack_rules_find(registers->pc, &module);
    if (!rule) onstack_store_relaxed(&onstack_traceback.stale, 1u);
    stepped = rule && traceback_apply(rule, registers);
  }
  onstack_traceback_leave();
  return stepped;
}
