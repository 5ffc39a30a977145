/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/drain/deliver.h"

#include "sampler/unwind/walk.h"
#include "platform/calls.h"
#include "platform/sys.h"
#include "sampler/unwind/rules.h"

#include <sys/mman.h>
#include <unistd.h>
#include <string.h>

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

/* The number under which an end comes; 0: none will. */
static uint64_t deliver_object(const onstack_slot *slot, const onstack_ring_entry *entry) {
  const uint64_t base = onstack_load_relaxed(&slot->object_base);
  if (base == 0 || (entry->flags & ONSTACK_SAMPLE_UNTRACKED)) return 0;
  return base + onstack_ring_position(&slot->ring, entry) + 1;
}

static bool deliver_one(const onstack_slot *slot, onstack_ring_entry *entry, const onstack_walked *stack,
                        const onstack_delivery *to) {
  ONSTACK_STOP_EXCEPTIONS;
  char name[sizeof(entry->thread_name) + 1];
  memcpy(name, entry->thread_name, sizeof(entry->thread_name));
  name[sizeof(entry->thread_name)] = 0;
  onstack_sample sample = {
      .size = sizeof(sample),
      .kind = entry->kind,
      .time_ns = entry->time_ns,
      .value = entry->value,
      .period = slot->periods[entry->kind],
      .unit = onstack_kind_unit(entry->kind),
      .weight = entry->weight,
      .tid = entry->tid,
      .truncation = stack->truncation,
      .thread_name = name,
      .frames = stack->frames,
      .frame_count = stack->count,
      .label_bytes = entry->label_bytes,
      .labels = entry->label_bytes > 0 ? onstack_ring_labels(&slot->ring, entry) : NULL,
      .flags = entry->flags & ~ONSTACK_ENTRY_INTERPRETED,
      .object = deliver_object(slot, entry),
  };
  return to->sink(to->data, &sample) == 0;
}

/* Before anything is counted: a stack that cannot be believed to its end is a truncated one. */
static void deliver_check_call_sites(const onstack_slot *slot, onstack_walked *stack) {
  onstack_walk_result result = {stack->count, stack->truncation};
  onstack_walk_check(slot->copy_works, stack->frames, stack->unwound_by, &result);
  stack->apart = result.frame_count < stack->count && result.truncation == ONSTACK_TRUNCATED_NOT;
  stack->count = result.frame_count;
  stack->truncation = result.truncation;
}

/* The frames up to the first whose code may not be what it was when the stack was walked: its caller is not known. */
static uint32_t deliver_unmoved(const onstack_walked *stack, uint32_t sequence) {
  onstack_module module = {.low = 0};
  const bool shrunk = (int32_t)(onstack_load_relaxed(&onstack_modules.gone) - sequence) > 0;
  for (uint32_t i = 0; i < stack->count; i++) {
    switch (onstack_modules_find(i == 0 ? stack->frames[0] : stack->frames[i] - 1, &module)) {
    case ONSTACK_MODULE_HERE:
      if ((int32_t)(module.since - sequence) <= 0) break;
      return i + 1;
    case ONSTACK_MODULE_NONE: /* generated code; or what was unloaded, before the walk or behind it */
      if (!shrunk) break;
      return i + 1;
    default:
      return i + 1; /* another session's consumer is writing it */
    }
  }
  return UINT32_MAX;
}

/* A stack that was walked by an older map than today's. */
static void deliver_compare(const onstack_slot *slot, uint32_t sequence, onstack_walked *stack) {
  if (!slot->unwinder->needs_rules || sequence == onstack_seqlock_begin(&onstack_modules.lock)) return;
  const uint32_t believed = deliver_unmoved(stack, sequence);
  if (believed > stack->count) return;
  stack->count = believed;
  stack->truncation = ONSTACK_TRUNCATED_PENDING;
}

static void deliver_count(onstack_deliver_counters *counters, const onstack_ring_entry *entry, const onstack_walked *stack) {
  onstack_add_relaxed(&counters->recorded.weight, (uint64_t)entry->weight);
  onstack_add_relaxed(&counters->recorded.value, entry->value);
  onstack_add_relaxed(&counters->samples, (uint64_t)1);
  onstack_add_relaxed(&counters->truncated_by[stack->truncation], (uint64_t)1);
}

/* Hands over one sample; false: the sink forked, and this is the child. */
static bool deliver_entry(onstack_slot *slot, onstack_ring_entry *entry, const onstack_delivery *to,
                          onstack_deliver_counters *by_kind, onstack_module_statistics *statistics) {
  onstack_deliver_counters *counters = &by_kind[entry->kind];
  const uint32_t generation = onstack_load_relaxed(&slot->generation);
  onstack_kept *kept = entry->kept ? &slot->kept[entry->kept - 1] : NULL;
  onstack_walked stack = {entry->frames, onstack_ring_unwound_by(&slot->ring, entry), entry->frame_count, entry->truncation,
                          false};
  if (kept) onstack_again(slot, kept, to->derive, &stack);
  deliver_compare(slot, entry->map_sequence, &stack);
  deliver_check_call_sites(slot, &stack);
  onstack_walked native = stack;
  if (entry->flags & ONSTACK_ENTRY_INTERPRETED) {
    onstack_interpreted *interpreted = onstack_ring_more(&slot->ring, entry);
    onstack_interleave(&slot->interpreters[interpreted->interpreter], interpreted, &stack, to->frames, slot->ring.depth,
                       to->interleaved);
  }
  native.truncation = stack.truncation;
  /* Before the sink: it may fork, and look at the statistics. */
  deliver_count(counters, entry, &stack);
  onstack_module_statistics_add(statistics, &native);
  const bool taken = !to->sink || deliver_one(slot, entry, &stack, to);
  /* The slot is not ours any more then, its ring is empty or another's. */
  if (onstack_load_relaxed(&slot->generation) != generation) return false;
  if (kept) onstack_again_release(slot->kept, kept);
  onstack_add_relaxed(&counters->delivered, (uint64_t)1);
  if (!taken) onstack_add_relaxed(&counters->refused, (uint64_t)1);
  return true;
}

uint32_t onstack_deliver(onstack_slot *slot, const onstack_delivery *to, onstack_deliver_counters *by_kind,
                         onstack_module_statistics *statistics) {
  uint32_t handed = 0;
  onstack_ring_entry *entry;
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  while ((to->max == 0 || handed < to->max) && (entry = onstack_ring_front(&slot->ring)) &&
         onstack_ring_position(&slot->ring, entry) < to->end) {
    if (entry->frame_count > 0) { /* 0: the unwinder refused; counted in the handler */
      if (!deliver_entry(slot, entry, to, by_kind, statistics)) return handed;
      handed++;
    }
    onstack_ring_release(&slot->ring, entry);
  }
  onstack_store_relaxed(&slot->sink_tid, 0);
  return handed;
}
