/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/drain/again.h"

#include "sampler/unwind/traceback_walk.h"
#include "sampler/unwind/walk.h"

#include <sys/mman.h>
#include <unistd.h>

/* Modules without rules in one stack that are waited for. */
#define AGAIN_MODULES 8u

/* One walk's view of a kept stack. */
typedef struct again_memory {
  onstack_memory memory;
  const onstack_kept *kept;
} again_memory;

static bool again_self_test(const void *good, const void *bad) {
  (void)good;
  (void)bad;
  return true;
}

static bool again_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  return onstack_kept_read(((const again_memory *)(const void *)memory)->kept, address, words);
}

static const onstack_reader again_reader = {"kept", again_self_test, again_read_pair};

static onstack_walk_result again_walk(const onstack_slot *slot, onstack_kept *kept) {
  again_memory view = {.kept = kept};
  onstack_walk_prepare(&view.memory, &again_reader, slot->copy_works, NULL);
  view.memory.elsewhere = true;
  const bool both = kept->first.high > kept->first.low;
  const uint64_t high = both ? kept->first.high : kept->native.high;
  view.memory.ranges[0] = (onstack_stack_range){kept->native.low, high};
  view.memory.ranges[1] = (onstack_stack_range){kept->go.low, kept->go.high};
  const onstack_walk walk = {.registers = &kept->registers,
                             .memory = &view.memory,
                             .frames = kept->frames,
                             .capacity = slot->ring.depth,
                             .unwound_by = kept->unwound_by};
  /* As a handler is inside while it reads a table: it is not unmapped meanwhile. */
  onstack_traceback_enter();
  const onstack_walk_result result = onstack_walk_run(slot->unwinder, &walk);
  onstack_traceback_leave();
  return result;
}

/* Asks for what the walk ended at: first for this address alone, and `whole` for all of its module, which also knows where
   generated code jumps to. */
static bool again_ask(const onstack_derive *from, const onstack_walked *stack, bool whole) {
  const uint64_t last = stack->frames[stack->count - 1], address = stack->count > 1 ? last - 1 : last;
  return whole ? from->derive(address) : from->describe(address);
}

void onstack_again(const onstack_slot *slot, onstack_kept *kept, const onstack_derive *from, onstack_walked *stack) {
  bool whole = false;
  uint32_t modules = 0;
  while (modules < AGAIN_MODULES && stack->truncation == ONSTACK_TRUNCATED_PENDING) {
    if (!again_ask(from, stack, whole)) return; /* it has gone since: what was kept can be told by nobody */
    modules += whole;
    const onstack_walk_result result = again_walk(slot, kept);
    const bool further = result.frame_count > stack->count || result.truncation == ONSTACK_TRUNCATED_NOT;
    if (!further && !whole) {
      whole = true;
      continue;
    }
    if (!further) {
      /* All rules are there, and the stack ends as it does. */
      const bool known = result.truncation != ONSTACK_TRUNCATED_PENDING && result.truncation != ONSTACK_TRUNCATED_UNREADABLE;
      if (known && result.frame_count == stack->count) stack->truncation = result.truncation;
      return;
    }
    if (result.frame_count < stack->count) return;
    /* What was kept ends somewhere; that the stack went on is no fault of it. */
    const bool ended = result.truncation == ONSTACK_TRUNCATED_UNREADABLE;
    *stack = (onstack_walked){kept->frames, kept->unwound_by, result.frame_count,
                              ended ? ONSTACK_TRUNCATED_PENDING : result.truncation, false};
    if (ended) return;
    whole = false;
  }
}

void onstack_again_release(const onstack_kept *pool, onstack_kept *kept) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t low = ((uintptr_t)kept->native_bytes + page - 1) & ~(page - 1);
  const uintptr_t high = (uintptr_t)(kept->first_bytes + sizeof(kept->first_bytes)) & ~(page - 1);
  if (low < high && kept != pool) madvise((void *)low, high - low, MADV_DONTNEED);
  onstack_kept_release(kept);
}
