/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/threads/thread_table.h"

#include "platform/context.h"
#include "onstack/onstack.h"

_Static_assert(sizeof(onstack_thread) == 128, "the low 7 bits of a record's address carry the generation");

/* Records of all slots, and those of the process clocks: cookies lead there. Behind them what no cookie leads to: one more
   record a slot, the thread ids, and the notes. */
typedef struct thread_region {
  onstack_thread records[ONSTACK_MAX_SESSIONS][ONSTACK_THREAD_RECORDS];
  onstack_thread clocks[ONSTACK_MAX_SESSIONS];
  onstack_thread process[ONSTACK_MAX_SESSIONS];
  uint32_t tids[ONSTACK_MAX_SESSIONS][ONSTACK_THREAD_RECORDS];
  onstack_thread_note notes[ONSTACK_MAX_SESSIONS][ONSTACK_THREAD_RECORDS];
} thread_region;

static thread_region *thread_region_base; /* written once before the first handler is installed */

void onstack_thread_region_set(void *memory) { onstack_publish(&thread_region_base, (thread_region *)memory); }

size_t onstack_thread_region_bytes(void) { return sizeof(thread_region); }

void onstack_thread_table_init(onstack_thread_table *table, uint32_t slot) {
  table->records = thread_region_base->records[slot];
  table->process = &thread_region_base->process[slot];
  table->tids = thread_region_base->tids[slot];
  table->notes = thread_region_base->notes[slot];
}

onstack_thread *onstack_thread_of_process_clock(uint32_t clock) { return &thread_region_base->clocks[clock]; }

ONSTACK_HANDLER onstack_thread_tick onstack_thread_from_cookie(uint64_t value) {
  const thread_region *region = onstack_observe(&thread_region_base);
  const uint64_t records = (uint64_t)ONSTACK_MAX_SESSIONS * ONSTACK_THREAD_RECORDS;
  onstack_thread_tick tick = {NULL, 0, 0};
  if (!region) return tick;
  uint64_t offset = value - (uint64_t)(uintptr_t)region; /* wraps to a huge number below the region */
  if (offset >= (records + ONSTACK_MAX_SESSIONS) * sizeof(onstack_thread)) return tick;
  uint64_t index = offset / sizeof(onstack_thread);
  tick.record = (onstack_thread *)(uintptr_t)(value & ~(ONSTACK_THREAD_GENERATIONS - 1));
  tick.generation = (uint32_t)(value & (ONSTACK_THREAD_GENERATIONS - 1));
  tick.slot = (uint32_t)(index < records ? index / ONSTACK_THREAD_RECORDS : ONSTACK_MAX_SESSIONS + (index - records));
  return tick;
}

ONSTACK_HANDLER void onstack_inside_enter(onstack_inside *inside, uint32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_INSIDE; i++) {
    uint32_t none = 0;
    if (onstack_load_relaxed(&inside->tids[i]) == 0 && onstack_dekker_cas(&inside->tids[i], &none, tid)) return;
  }
  onstack_dekker_add(&inside->more, 1u);
}

ONSTACK_HANDLER bool onstack_inside_take_out(onstack_inside *inside, uint32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_INSIDE; i++) {
    uint32_t has = tid;
    if (onstack_load_relaxed(&inside->tids[i]) == tid) return onstack_dekker_cas(&inside->tids[i], &has, 0u);
  }
  return false;
}

ONSTACK_HANDLER void onstack_inside_leave(onstack_inside *inside, uint32_t tid) {
  if (!onstack_inside_take_out(inside, tid)) onstack_dekker_sub(&inside->more, 1u);
}

static ONSTACK_HANDLER uint32_t thread_home(uint32_t tid) {
  /* Kernel thread ids are handed out in sequence: sixteen in a row share a bucket, which spreads them evenly and lets
     short-lived threads use the same few pages again. */
  return tid / ONSTACK_THREAD_BUCKET % (ONSTACK_THREAD_RECORDS / ONSTACK_THREAD_BUCKET) * ONSTACK_THREAD_BUCKET;
}

ONSTACK_HANDLER onstack_thread *onstack_thread_find(const onstack_thread_table *table, uint32_t tid) {
  uint32_t home = thread_home(tid);
  for (uint32_t i = 0; i < ONSTACK_THREAD_BUCKET * ONSTACK_THREAD_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_THREAD_RECORDS;
    if (onstack_observe(&table->tids[index]) == tid) return &table->records[index];
  }
  return NULL;
}

ONSTACK_HANDLER onstack_thread *onstack_thread_claim(const onstack_thread_table *table, uint32_t tid) {
  uint32_t home = thread_home(tid);
  for (uint32_t i = 0; i < ONSTACK_THREAD_BUCKET * ONSTACK_THREAD_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_THREAD_RECORDS;
    uint32_t expected = 0;
    if (onstack_load_relaxed(&table->tids[index]) != 0) continue;
    if (!onstack_cas(&table->tids[index], &expected, tid)) continue;
    onstack_thread *record = &table->records[index];
    onstack_store_relaxed(&record->timer.meetings, (uint8_t)0);
    onstack_timer_reset(&record->timer);
    return record;
  }
  return NULL;
}

void onstack_thread_release(const onstack_thread_table *table, onstack_thread *record) {
  onstack_seqlock_write_begin(&record->lock);
  for (uint32_t i = 0; i < 2; i++) onstack_store_relaxed(&record->name[i], (uint64_t)0);
  onstack_stack_bounds_clear(&record->bounds);
  onstack_thread_note_of(table, record)->looked = 0;
  onstack_store_relaxed(&onstack_thread_note_of(table, record)->waiting, 0u);
  onstack_seqlock_write_end(&record->lock);
  onstack_publish(&table->tids[record - table->records], 0u);
}

onstack_thread_note *onstack_thread_note_of(const onstack_thread_table *table, const onstack_thread *record) {
  return &table->notes[record - table->records];
}

ONSTACK_HANDLER uint32_t onstack_thread_tid(const onstack_thread_table *table, const onstack_thread *record) {
  if (record == table->process) return 0;
  return onstack_load_relaxed(&table->tids[record - table->records]);
}

ONSTACK_HANDLER bool onstack_thread_snapshot(const onstack_thread *record, uint64_t name[2],
                                             onstack_stack_range ranges[ONSTACK_STACK_RANGES]) {
  const uint32_t begun = onstack_seqlock_begin(&record->lock);
  for (uint32_t i = 0; i < 2; i++) name[i] = onstack_load_relaxed(&record->name[i]);
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) {
    ranges[i].low = onstack_load_relaxed(&record->bounds.ranges[i].low);
    ranges[i].high = onstack_load_relaxed(&record->bounds.ranges[i].high);
  }
  if (onstack_seqlock_held(&record->lock, begun)) return true;
  for (uint32_t i = 0; i < 2; i++) name[i] = 0;
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) ranges[i].low = ranges[i].high = 0;
  return false;
}
