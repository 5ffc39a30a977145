/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/wall_account.h"

#include "sampler/source/arm.h"
#include "sampler/unwind/rules.h"

#include <string.h>

struct onstack_wall_stack {
  onstack_walked_stack walked;
  uint32_t wait_label_bytes;
  uint64_t blocked_ns;
  uint8_t memory[]; /* frames, an interpreter's frames, unwound_by, labels */
};

/* ---- samples ---- */

/* Room for what an entry of the ring has room for. */
size_t onstack_wall_stack_bytes(const onstack_slot *slot) {
  const size_t interpreted =
      slot->interpreter_count == 0 ? 0 : sizeof(onstack_interpreted) + slot->ring.depth * sizeof(onstack_interpreted_frame);
  return sizeof(onstack_wall_stack) + slot->ring.depth * (sizeof(uint64_t) + 1) + interpreted + slot->ring.label_room;
}

static size_t wall_interpreted_bytes(const onstack_walked_stack *walked) {
  return walked->interpreted ? onstack_interpreted_used(walked->interpreted) : 0;
}

static void *wall_put(uint8_t **end, const void *from, size_t bytes) {
  void *to = *end;
  if (bytes > 0) memcpy(to, from, bytes);
  *end += bytes;
  return to;
}

static onstack_wall_stack *wall_stack_put(void *room, const onstack_look *look) {
  const onstack_walked_stack *from = &look->stack;
  onstack_wall_stack *stack = room;
  uint8_t *end = stack->memory;
  *stack = (onstack_wall_stack){.walked = *from, .wait_label_bytes = look->wait_label_bytes};
  stack->walked.frames = wall_put(&end, from->frames, from->count * sizeof(uint64_t));
  if (from->interpreted) stack->walked.interpreted = wall_put(&end, from->interpreted, wall_interpreted_bytes(from));
  stack->walked.unwound_by = wall_put(&end, from->unwound_by, from->count);
  stack->walked.labels = wall_put(&end, from->labels, from->label_bytes);
  return stack;
}

static bool wall_stack_is(const onstack_wall_stack *stack, const onstack_look *look) {
  const onstack_walked_stack *a = &stack->walked, *b = &look->stack;
  const size_t interpreted = wall_interpreted_bytes(a);
  return a->count == b->count && a->truncation == b->truncation && a->label_bytes == b->label_bytes &&
         interpreted == wall_interpreted_bytes(b) && memcmp(a->frames, b->frames, a->count * sizeof(uint64_t)) == 0 &&
         (interpreted == 0 || memcmp(a->interpreted, b->interpreted, interpreted) == 0) &&
         memcmp(a->labels, b->labels, a->label_bytes) == 0;
}

void onstack_wall_lose(onstack_slot *slot, uint64_t ns, uint64_t ticks) {
  if (ticks == 0) return;
  onstack_add_relaxed(&slot->counters.ticks, ticks);
  onstack_add_relaxed(&slot->lost[ONSTACK_KIND_WALL].unwinder.weight, ticks);
  onstack_add_relaxed(&slot->lost[ONSTACK_KIND_WALL].unwinder.value, ns);
}

/* A poll looks from a thread of the host's, whose signals must not come between claim and publication: a handler that leaves
   by siglongjmp would keep the entry claimed for ever. */
static void wall_record(onstack_slot *slot, onstack_wall_mark *mark, const onstack_walked_stack *stack, uint64_t ns,
                        uint64_t ticks) {
  onstack_source_visit visit;
  if (!mark->is_named) onstack_task_name(mark->tid, mark->name); /* of one that has ended the last that is known */
  mark->is_named = true;
  const uint32_t weight = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
  const onstack_event event = {
      .tid = mark->tid, .kind = ONSTACK_KIND_WALL, .value = ns, .weight = weight, .name = mark->name};
  if (!onstack_source_enter(&visit, slot, slot->generation)) {
    onstack_wall_lose(slot, ns, weight);
    return;
  }
  onstack_add_relaxed(&slot->counters.ticks, (uint64_t)weight);
  onstack_record_walked(slot, &event, stack);
  onstack_source_leave(&visit);
}

/* The ticks of its waits for a processor that have come to a period; `last`: or to half of one. */
static void wall_tell_runnable(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index, bool last) {
  static const char state[] = "state\0runnable";
  char labels[sizeof(state) + ONSTACK_MAX_LABEL_BYTES];
  const uint64_t held_ns = onstack_load_relaxed(&slot->runnable_ns[index]);
  const uint64_t ticks = (held_ns + (last ? slot->period / 2 : 0)) / slot->period;
  if (ticks == 0) return;
  /* A tick may come meanwhile, and take its part. */
  const uint64_t ns = last ? held_ns : ticks * slot->period;
  if (!onstack_runnable_take(slot, index, ns)) return;
  onstack_walked_stack walked = mark->stack->walked;
  const uint32_t others = walked.label_bytes - mark->stack->wait_label_bytes;
  memcpy(labels, state, sizeof(state));
  memcpy(labels + sizeof(state), walked.labels + mark->stack->wait_label_bytes, others);
  walked.labels = labels;
  walked.time_ns = 0;
  walked.label_bytes = (uint32_t)sizeof(state) + others;
  wall_record(slot, mark, &walked, ns, ticks);
}

/* What is held back becomes a sample, if it comes to a tick. */
static void wall_tell(onstack_slot *slot, onstack_wall_mark *mark) {
  onstack_wall_stack *stack = mark->stack;
  if (!stack || stack->blocked_ns + mark->rest_ns == 0) return; /* no sample of no time */
  mark->rest_ns += stack->blocked_ns;
  stack->blocked_ns = 0;
  const uint64_t ticks = (mark->ticked_ns + mark->rest_ns) / slot->period;
  if (ticks == 0) return;
  wall_record(slot, mark, &stack->walked, mark->rest_ns, ticks);
  mark->ticked_ns = (mark->ticked_ns + mark->rest_ns) % slot->period;
  mark->rest_ns = 0;
}

/* Time of the last stack: less what was given to stacks that the kernel has taken back since. */
static void wall_give(onstack_wall_mark *mark, uint64_t ns) {
  const uint64_t owed = mark->unplaced_ns < 0 ? (uint64_t)-mark->unplaced_ns : 0;
  const uint64_t paid = owed < ns ? owed : ns;
  mark->unplaced_ns += (int64_t)paid;
  mark->stack->blocked_ns += ns - paid;
}

/* Time of no stack yet. What the kernel takes back (negative) was given to the last stack most likely, and is taken from what
   is held back for it. */
static void wall_leave_unplaced(onstack_wall_mark *mark, int64_t ns) {
  mark->unplaced_ns += ns;
  if (!mark->stack || mark->unplaced_ns >= 0) return;
  const uint64_t held_ns = mark->stack->blocked_ns;
  mark->stack->blocked_ns = 0;
  wall_give(mark, held_ns);
}

/* Not all threads in the same round. */
void onstack_wall_tell_if_due(onstack_slot *slot, onstack_wall_mark *mark, uint64_t held_ns) {
  if (mark->stack && mark->stack->blocked_ns >= held_ns / 2 + (uint64_t)mark->tid % 64 * (held_ns / 128))
    wall_tell(slot, mark);
}

/* ---- the account of a thread ---- */

void onstack_wall_end(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index) {
  const uint64_t unplaced_ns = mark->unplaced_ns > 0 ? (uint64_t)mark->unplaced_ns : 0;
  onstack_add_relaxed(&slot->runnable_ns[index], mark->doubtful_ns); /* it waits still */
  if (mark->stack) {
    mark->stack->blocked_ns += unplaced_ns;
    mark->ticked_ns += slot->period / 2;
    wall_tell(slot, mark);
    wall_tell_runnable(slot, mark, index, true);
  } else {
    const uint64_t lost_ns = unplaced_ns + onstack_load_relaxed(&slot->runnable_ns[index]);
    onstack_wall_lose(slot, lost_ns, (lost_ns + slot->period / 2) / slot->period);
  }
  onstack_store_relaxed(&slot->runnable_ns[index], (uint64_t)0);
  *mark = (onstack_wall_mark){.tid = 0};
}

/* Samples are believed as far as the modules of their walk are still there: so the last walk counts. What is held back of a
   thread that has run meanwhile is of the modules of then. */
static void wall_renew(onstack_slot *slot, onstack_wall_mark *mark, uint32_t map_sequence, bool ran) {
  if (mark->stack->walked.map_sequence == map_sequence) return;
  if (ran) wall_tell(slot, mark);
  mark->stack->walked.map_sequence = map_sequence;
}

void onstack_wall_account_blocked(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index, void *room,
                                  const onstack_wall_found *found) {
  int64_t blocked_ns = found->blocked_ns;
  if (blocked_ns < 0) {
    wall_leave_unplaced(mark, blocked_ns);
    blocked_ns = 0;
  }
  if (mark->stack && wall_stack_is(mark->stack, found->look)) {
    wall_renew(slot, mark, found->look->stack.map_sequence, found->ran);
  } else {
    if (mark->stands && blocked_ns > 0) {
      wall_give(mark, (uint64_t)blocked_ns / 2);
      mark->stack->walked.time_ns = mark->seen_ns + (uint64_t)blocked_ns / 2;
      blocked_ns -= blocked_ns / 2;
    }
    wall_tell(slot, mark);
    mark->stack = wall_stack_put(room, found->look);
  }
  mark->stack->walked.time_ns = found->now_ns;
  mark->unplaced_ns += blocked_ns;
  if (mark->unplaced_ns > 0) {
    mark->stack->blocked_ns += (uint64_t)mark->unplaced_ns;
    mark->unplaced_ns = 0;
  }
  mark->stands = true;
  mark->stood_ns = mark->seen_ns;
  wall_tell_runnable(slot, mark, index, false);
}

void onstack_wall_account_running(onstack_wall_mark *mark, int64_t blocked_ns, onstack_wall_slice slice) {
  if (slice != ONSTACK_SLICE_OTHER && !mark->stands && blocked_ns > 0) {
    if (slice == ONSTACK_SLICE_WAITS) mark->doubtful_ns += (uint64_t)blocked_ns;
    return;
  }
  if (mark->stands && blocked_ns > 0) {
    wall_give(mark, (uint64_t)blocked_ns);
    mark->stack->walked.time_ns = mark->seen_ns + (uint64_t)blocked_ns;
  } else
    wall_leave_unplaced(mark, blocked_ns);
  mark->stands = false;
}

bool onstack_wall_stands(const onstack_slot *slot, const onstack_wall_mark *mark) {
  if (!mark->stands || mark->stack->walked.truncation == ONSTACK_TRUNCATED_PENDING) return false;
  return !slot->unwinder->needs_rules || mark->stack->walked.map_sequence == onstack_seqlock_begin(&onstack_modules.lock);
}

void onstack_wall_stay(onstack_wall_mark *mark, uint64_t ns) {
  wall_give(mark, ns);
  mark->idle_ns += ns;
  mark->stack->walked.time_ns = mark->seen_ns + ns;
}

void onstack_wall_gone(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index, uint64_t now_ns) {
  if (mark->stands) onstack_wall_stay(mark, (now_ns - mark->seen_ns) / 2);
  onstack_wall_end(slot, mark, index);
}
