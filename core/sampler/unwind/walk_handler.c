/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/walk.h"

#include "platform/defs.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/unwinder.h"

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

typedef struct call_site_batch {
  uint32_t count;
  uint32_t frames[ONSTACK_COPY_MANY];
  uint64_t words[ONSTACK_COPY_MANY]; /* addresses before the copy, code after it */
} call_site_batch;

/* The marked frames from `next` on, as many as one system call reads. Another sample may have proven some meanwhile. */
static ONSTACK_HANDLER uint32_t call_site_collect(call_site_batch *batch, const uint64_t *frames, uint8_t *unwound_by,
                                                  uint32_t count, uint32_t next, uint64_t seal) {
  batch->count = 0;
  for (; next < count && batch->count < ONSTACK_COPY_MANY; next++) {
    if (!(unwound_by[next - 1] & ONSTACK_BY_UNPROVEN)) continue;
    unwound_by[next - 1] &= (uint8_t)~ONSTACK_BY_UNPROVEN;
    uint64_t value = onstack_pc_recall(frames[next] - 1, seal);
    if (value && !(value & ONSTACK_PC_UNPROVEN)) continue;
    batch->frames[batch->count] = next;
    batch->words[batch->count++] = frames[next] - ONSTACK_CALL_BYTES;
  }
  return next;
}

static ONSTACK_HANDLER void call_site_note(uint64_t return_address, uint64_t seal) {
  uint64_t value = onstack_pc_recall(return_address - 1, seal);
  if (value) onstack_pc_remember(return_address - 1, value & ~(uint64_t)ONSTACK_PC_UNPROVEN, seal);
}

/* An interpreter's entry that calls return to, which nobody called from there. */
static ONSTACK_HANDLER_APART bool call_site_is_entry(uint64_t return_address) {
  uint64_t code;
  return onstack_memory_copy_many(&return_address, 1, &code) == 1 && onstack_return_entry_begins(code);
}

/* The frames before the first that is not code by today's map. */
static ONSTACK_HANDLER uint32_t call_sites_listed(const uint64_t *frames, uint8_t *unwound_by, uint32_t count) {
  onstack_code_range last = {0, 0};
  for (uint32_t next = 1; next < count; next++) {
    if (!(unwound_by[next - 1] & ONSTACK_BY_UNLISTED)) continue;
    if (!onstack_code_is_executable(frames[next] - 1, &last)) return next;
    unwound_by[next - 1] &= (uint8_t)~ONSTACK_BY_UNLISTED;
  }
  return count;
}

ONSTACK_HANDLER bool onstack_call_sites_end(const uint8_t *unwound_by, uint32_t believed) {
  for (uint32_t i = 0; i < believed; i++)
    if (unwound_by[i] != ONSTACK_BY_RULES) return false;
  return believed > 1;
}

ONSTACK_HANDLER uint32_t onstack_call_sites_check(const uint64_t *frames, uint8_t *unwound_by, uint32_t count) {
  /* Before the code is read: what is noted of code that another module replaces meanwhile belongs to an epoch that is
     over (sampler/modules/modules.c counts it up before anything is unmapped). */
  uint64_t seal = onstack_pc_seal(onstack_observe(&onstack_pc_epoch));
  call_site_batch batch;
  uint32_t next = 1;
  count = call_sites_listed(frames, unwound_by, count);
  while (next < count) {
    next = call_site_collect(&batch, frames, unwound_by, count, next, seal);
    for (uint32_t i = 0; i < batch.count;) {
      uint32_t got = onstack_memory_copy_many(batch.words + i, batch.count - i, batch.words + i);
      for (uint32_t end = i + got; i < end; i++) {
        const uint64_t address = frames[batch.frames[i]];
        if (!onstack_call_ends((const uint8_t *)&batch.words[i]) && !call_site_is_entry(address)) return batch.frames[i];
        call_site_note(address, seal);
      }
      i++; /* past the one that could not be read */
    }
  }
  return count;
}
