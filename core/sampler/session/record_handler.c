/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/session/record.h"

#include "sampler/labels/labels.h"
#include "sampler/unwind/code_map.h"
#include "platform/context.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/walk.h"

#include <signal.h>
#include <time.h>

/*
 * The signal stack is short: what is needed before or after the walk only is in functions of its own, and the walk is part of
 * both functions that take an event.
 */
#define RECORD_INLINE inline __attribute__((always_inline)) ONSTACK_HANDLER

static ONSTACK_HANDLER uint64_t record_now_ns(const onstack_slot *slot) {
  struct onstack_timespec now = {0, 0};
  /* The vDSO's function takes no lock and touches no errno; it falls back to the system call by itself. */
  if (!slot->clock_gettime || slot->clock_gettime(CLOCK_MONOTONIC, &now) != 0)
    onstack_sys_call2(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

static ONSTACK_HANDLER void record_wake_consumer(onstack_slot *slot) {
  if (onstack_load_relaxed(&slot->wake) == 0 && onstack_exchange(&slot->wake, 1u) == 0) onstack_sys_futex_wake(&slot->wake);
}

/* After a long pause of the consumer, code objects of an interpreter may be gone, and their names with them; and stacks that
   are kept until it knows a library are few. From a rest it is to come back at once: the process works again. */
static ONSTACK_HANDLER void record_wake_where_due(onstack_slot *slot, bool passing) {
  const uint32_t least = passing ? ONSTACK_PAUSE_LONG : ONSTACK_PAUSE_REST;
  /* The consumer stores its pause, and then looks for samples. Others than these may wait for the next tick. */
  if (passing) onstack_fence_dekker();
  const bool soon = onstack_load_relaxed(&slot->pauses) >= least;
  if (soon || onstack_ring_is_half_full(&slot->ring)) record_wake_consumer(slot);
}

static ONSTACK_HANDLER void record_lose(onstack_sum *lost, uint32_t weight, uint64_t value) {
  onstack_add_relaxed(&lost->weight, (uint64_t)weight);
  onstack_add_relaxed(&lost->value, value);
}

/* The thread's name, and what is known of its stacks. */
static RECORD_INLINE void record_look_up(const onstack_event *event, onstack_memory *memory, uint64_t name[2]) {
  if (event->thread) {
    onstack_thread_snapshot(event->thread, name, memory->ranges);
  } else {
    name[0] = event->name ? event->name[0] : 0;
    name[1] = event->name ? event->name[1] : 0;
    onstack_walk_forget_ranges(memory);
  }
}

static RECORD_INLINE onstack_walk_result record_walk(onstack_slot *slot, const onstack_event *event,
                                                     onstack_ring_entry *entry) {
  onstack_memory memory;
  onstack_walk_prepare(&memory, slot->reader, slot->copy_works, event->thread ? &event->thread->bounds : NULL);
  record_look_up(event, &memory, entry->thread_name);
  const onstack_walk walk = {event->registers,
                             event->ucontext,
                             &memory,
                             slot->custom,
                             entry->frames,
                             slot->ring.depth,
                             onstack_ring_unwound_by(&slot->ring, entry)};
  const onstack_walk_result result = onstack_walk_run(slot->unwinder, &walk);
  if (result.truncation == ONSTACK_TRUNCATED_PENDING) entry->kept = (uint8_t)onstack_keep(slot->kept, event->registers);
  if (memory.asked) {
    onstack_store_relaxed(&slot->bounds_requested, 1u);
    record_wake_consumer(slot);
  }
  return result;
}

/* "key\0value\0". */
static const char record_running[] = "state\0running", record_runnable[] = "state\0runnable";

/* Before all others, for which there is room besides. */
static ONSTACK_HANDLER void record_copy_state(const onstack_slot *slot, const onstack_event *event,
                                              onstack_ring_entry *entry) {
  const char *text = event->waited ? record_runnable : record_running;
  const uint32_t bytes = event->waited ? sizeof(record_runnable) : sizeof(record_running);
  volatile char *out = onstack_ring_labels(&slot->ring, entry);
  for (uint32_t i = 0; i < bytes; i++) out[i] = text[i];
  entry->label_bytes = (uint16_t)bytes;
}

/* The goroutine's labels (of the first runtime that has a goroutine on this thread), and behind them the thread's. */
static ONSTACK_HANDLER_APART void record_copy_labels(const onstack_slot *slot, onstack_ring_entry *entry) {
  uint8_t *out = (uint8_t *)onstack_ring_labels(&slot->ring, entry) + entry->label_bytes;
  uint32_t runtimes = onstack_observe(&onstack_code.go_count); /* pairs with the publish in control */
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < runtimes && bytes == 0; i++) {
    uint32_t result = onstack_go_labels_copy(&onstack_code.go[i], out, slot->label_bytes);
    bytes = result & ~ONSTACK_GO_LABELS_CUT;
    if (result & ONSTACK_GO_LABELS_CUT) entry->flags |= ONSTACK_SAMPLE_LABELS_CUT;
  }
  uint32_t result = onstack_labels_copy((uint32_t)entry->tid, (char *)out + bytes, slot->label_bytes - bytes);
  if (result & ONSTACK_LABELS_CUT) entry->flags |= ONSTACK_SAMPLE_LABELS_CUT;
  entry->label_bytes = (uint16_t)(entry->label_bytes + bytes + (result & ~ONSTACK_LABELS_CUT));
}

/* Behind the labels, so that those that the application has given stand. */
static ONSTACK_HANDLER_APART void record_copy_span(const onstack_slot *slot, onstack_ring_entry *entry) {
  char labels[ONSTACK_SPAN_BYTES], *out = (char *)onstack_ring_labels(&slot->ring, entry) + entry->label_bytes;
  const uint32_t bytes = onstack_span_copy(labels);
  if (bytes > slot->ring.label_room - entry->label_bytes) {
    entry->flags |= ONSTACK_SAMPLE_LABELS_CUT;
    return;
  }
  for (uint32_t i = 0; i < bytes; i++) ((volatile char *)out)[i] = labels[i];
  entry->label_bytes = (uint16_t)(entry->label_bytes + bytes);
}

/* An entry with all but the stack; NULL: the ring is full, which is counted. */
static ONSTACK_HANDLER_APART onstack_ring_entry *record_claim(onstack_slot *slot, onstack_kind kind, uint32_t tid,
                                                              uint32_t weight, uint64_t value, uint64_t *position) {
  onstack_ring_entry *entry = onstack_ring_claim(&slot->ring, position);
  if (!entry) {
    record_lose(&slot->lost[kind].ring_full, weight, value);
    record_wake_consumer(slot);
    return NULL;
  }
  entry->value = value;
  entry->weight = weight;
  entry->kind = (uint8_t)kind;
  entry->tid = (int32_t)tid;
  entry->flags = 0;
  /* Before the walk reads any of it; odd: of the one before. */
  entry->map_sequence = onstack_seqlock_begin(&onstack_modules.lock) & ~1u;
  /* Last: where this is a system call the thread may end in it, and the consumer reads the rest (onstack_ring_abandoned). */
  entry->time_ns = record_now_ns(slot);
  return entry;
}

/* An interpreter's frames of this thread. Returns the bytes that are used. */
static ONSTACK_HANDLER_APART uint32_t record_copy_interpreted(const onstack_slot *slot, onstack_ring_entry *entry,
                                                              const onstack_registers *registers) {
  onstack_interpreted *out = onstack_ring_more(&slot->ring, entry);
  if (!onstack_ring_has_more(&slot->ring, entry)) return 0; /* none has been met */
  const onstack_interrupted interrupted = {registers, entry->frames, entry->frame_count,
                                           entry->truncation == ONSTACK_TRUNCATED_NOT, entry->tid};
  onstack_interpreted_copy(slot->interpreters, slot->interpreter_count, &interrupted, slot->ring.depth, out);
  if (out->count == 0 && !out->refused) return 0;
  entry->flags |= ONSTACK_ENTRY_INTERPRETED;
  return onstack_interpreted_used(out);
}

static RECORD_INLINE bool record_stack(onstack_slot *slot, const onstack_event *event, onstack_ring_entry *entry,
                                       uint64_t position) {
  const onstack_walk_result result = record_walk(slot, event, entry);
  entry->frame_count = (uint16_t)result.frame_count;
  entry->truncation = (uint8_t)result.truncation;
  onstack_ring_trim(&slot->ring, entry);
  if (slot->says_states) record_copy_state(slot, event, entry);
  if (slot->label_bytes > 0) {
    record_copy_labels(slot, entry);
    record_copy_span(slot, entry);
  }
  /* The entry is claimed and must be handed on; the drain skips it. */
  if (result.frame_count == 0) record_lose(&slot->lost[entry->kind].unwinder, entry->weight, entry->value);
  const uint32_t interpreted_bytes =
      slot->interpreter_count > 0 ? record_copy_interpreted(slot, entry, event->registers) : 0;
  onstack_ring_publish_with(&slot->ring, entry, position, interpreted_bytes);
  record_wake_where_due(slot, interpreted_bytes > 0 || result.truncation == ONSTACK_TRUNCATED_PENDING);
  return result.frame_count > 0;
}

ONSTACK_HANDLER_APART uint64_t onstack_record(onstack_slot *slot, const onstack_event *event) {
  uint64_t position;
  onstack_ring_entry *entry = record_claim(slot, event->kind, event->tid, event->weight, event->value, &position);
  if (!entry) return 0;
  entry->flags = event->flags;
  return record_stack(slot, event, entry, position) ? position + 1 : 0;
}

/* What was copied before, word by word: no libc here. Returns the bytes that are used. */
static uint32_t record_put_interpreted(const onstack_slot *slot, onstack_ring_entry *entry,
                                       const onstack_interpreted *from) {
  if (!from || !onstack_ring_has_more(&slot->ring, entry)) return 0;
  const uint32_t bytes = onstack_interpreted_used(from);
  const uint64_t *words = (const uint64_t *)(const void *)from;
  uint64_t *to = onstack_ring_more(&slot->ring, entry);
  for (uint32_t i = 0; i < bytes / sizeof(*words); i++) to[i] = words[i];
  entry->flags |= ONSTACK_ENTRY_INTERPRETED;
  return bytes;
}

void onstack_record_walked(onstack_slot *slot, const onstack_event *event, const onstack_walked_stack *stack) {
  uint64_t position;
  onstack_ring_entry *entry = record_claim(slot, event->kind, event->tid, event->weight, event->value, &position);
  if (!entry) return;
  entry->flags = (uint8_t)(event->flags | (stack->labels_cut ? ONSTACK_SAMPLE_LABELS_CUT : 0));
  if (stack->time_ns != 0) entry->time_ns = stack->time_ns;
  entry->thread_name[0] = event->name[0];
  entry->thread_name[1] = event->name[1];
  entry->map_sequence = stack->map_sequence;
  entry->frame_count = (uint16_t)stack->count;
  entry->truncation = (uint8_t)stack->truncation;
  for (uint32_t i = 0; i < stack->count; i++) entry->frames[i] = stack->frames[i];
  for (uint32_t i = 0; i < stack->count; i++) onstack_ring_unwound_by(&slot->ring, entry)[i] = stack->unwound_by[i];
  onstack_ring_trim(&slot->ring, entry);
  for (uint32_t i = 0; i < stack->label_bytes; i++) onstack_ring_labels(&slot->ring, entry)[i] = stack->labels[i];
  entry->label_bytes = (uint16_t)stack->label_bytes;
  const uint32_t interpreted_bytes = record_put_interpreted(slot, entry, stack->interpreted);
  onstack_ring_publish_with(&slot->ring, entry, position, interpreted_bytes);
  record_wake_where_due(slot, interpreted_bytes > 0);
}

ONSTACK_HANDLER_APART void onstack_record_tick(onstack_slot *slot, onstack_thread *thread, uint32_t tid, uint32_t weight,
                                               ucontext_t *context, bool waited) {
  onstack_registers registers;
  uint64_t position;
  onstack_ring_entry *entry = record_claim(slot, slot->kind, tid, weight, weight * slot->period, &position);
  if (!entry) return;
  onstack_registers_from(&registers, context);
  const onstack_event event = {.thread = thread, .registers = &registers, .ucontext = context, .waited = waited};
  record_stack(slot, &event, entry, position);
}

ONSTACK_HANDLER bool onstack_source_enter(onstack_source_visit *visit, onstack_slot *slot, uint32_t generation) {
  const onstack_kernel_sigset every = ~(onstack_kernel_sigset)0;
  if (onstack_load_relaxed(&slot->state) != ONSTACK_SLOT_RUNNING) return false; /* off is free */
  visit->slot = slot;
  /* Refused (seccomp): a signal could nest, and there is no mask to be put back. Such a filter stays, so what is counted of a
     session that ends here, or begins, is the least of it. */
  if (onstack_sys_sigprocmask(SIG_SETMASK, &every, &visit->mask) != 0) {
    onstack_add_relaxed(&slot->counters.ticks, (uint64_t)1);
    onstack_add_relaxed(&slot->counters.unattributed, (uint64_t)1);
    return false;
  }
  /* Before the look at the state; see slot.h. */
  visit->tid = (uint32_t)onstack_sys_gettid();
  onstack_inside_enter(&slot->visits, visit->tid);
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING && slot->generation == generation) return true;
  onstack_source_leave(visit);
  return false;
}

ONSTACK_HANDLER void onstack_source_leave(const onstack_source_visit *visit) {
  onstack_inside_leave(&visit->slot->visits, visit->tid);
  onstack_sys_sigprocmask(SIG_SETMASK, &visit->mask, NULL);
}
