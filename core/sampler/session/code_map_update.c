/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/session/code_map_update.h"

#include "platform/defs.h"
#include "platform/proc.h"
#include "sampler/modules/go_runtime.h"
#include "sampler/unwind/generated_code.h"
#include "sampler/unwind/code_map.h"

#include <pthread.h>
#include <string.h>

/* Lock order: control lock, then this one. It guards the scratch space below and the writing of onstack_code. */
static pthread_mutex_t code_map_lock = PTHREAD_MUTEX_INITIALIZER;

#define CODE_MAP_NO_BOUNDS ((uint64_t)1 << 20) /* around an address without a mapping; a power of two */
#define CODE_MAP_RECORDS 512u                  /* records that one pass serves; the next pass goes on with the rest */

typedef struct code_map_scan {
  onstack_slot *slot;
  uint32_t count; /* of ranges */
  onstack_code_range ranges[ONSTACK_CODE_RANGES];
  onstack_code_range jumped; /* code that may be jumped to (sampler/unwind/generated_code.h); high 0: none */
  bool jumped_is_there;      /* what was known of it before is mapped yet */
  uint32_t record_count;
  onstack_thread *records[CODE_MAP_RECORDS];
  uint64_t asked[CODE_MAP_RECORDS][2]; /* the requests that this pass fulfils; later ones wait for the next */
  /* What the records' ranges become: `found` is for `asked`, `kept` confirms the ranges of before. */
  onstack_stack_range kept[CODE_MAP_RECORDS][ONSTACK_STACK_RANGES];
  onstack_stack_range found[CODE_MAP_RECORDS][2];
  uint32_t next_record; /* where the next pass begins */
} code_map_scan;

static code_map_scan code_scan; /* static: no large frame on a host's stack; only touched pages cost memory */

static void code_map_add_executable(code_map_scan *scan, const onstack_mapping *mapping) {
  onstack_code_range *last = scan->count ? &scan->ranges[scan->count - 1] : NULL;
  if (last && mapping->low < last->high) return; /* the maps changed while they were read */
  /* With the table full the last range swallows what follows: too lenient rather than cutting stacks short. */
  if (last && (mapping->low == last->high || scan->count == ONSTACK_CODE_RANGES)) {
    last->high = mapping->high;
    return;
  }
  scan->ranges[scan->count++] = (onstack_code_range){mapping->low, mapping->high};
}

/* What PHP's opcache shares with its children (ext/opcache/shared_alloc_mmap.c), as the kernel calls such memory; of it only
   what its compiler makes may run. While that writes, it may not: what is known stays as long as something of it is there. */
static void code_map_note_jumped(code_map_scan *scan, const onstack_mapping *mapping) {
  static const char *const names[] = {"/dev/zero", "/anon_hugepage"};
  const uint64_t low = onstack_load_relaxed(&onstack_code_jumped.low),
                 bytes = onstack_load_relaxed(&onstack_code_jumped.bytes);
  if (!mapping->shared || !mapping->deleted) return;
  if (strcmp(mapping->path, names[0]) != 0 && strcmp(mapping->path, names[1]) != 0) return;
  if (bytes != 0 && mapping->low < low + bytes && mapping->high > low) scan->jumped_is_there = true;
  if (mapping->executable && scan->jumped.high == 0) scan->jumped = (onstack_code_range){mapping->low, mapping->high};
}

/* The memory of a PHP that was loaded anew lies elsewhere. A handler that has read the old number of bytes takes code of the
   new one for jumped to at most as far as that: the same kind of memory. */
static void code_map_publish_jumped(const code_map_scan *scan) {
  if (scan->jumped_is_there || scan->jumped.high == 0) return;
  onstack_publish(&onstack_code_jumped.bytes, (uint64_t)0);
  onstack_store_relaxed(&onstack_code_jumped.low, scan->jumped.low);
  onstack_publish(&onstack_code_jumped.bytes, scan->jumped.high - scan->jumped.low);
}

/*
 * The kernel merges neighbouring anonymous mappings, so a mapping may go on above the stack with memory that somebody
 * else unmaps. libc places the thread pointer at the top of the stacks that it makes: where it lies above the stack
 * pointer in the same mapping, it is the end.
 */
static onstack_stack_range code_map_bound(const onstack_thread *record, const onstack_mapping *mapping, uint64_t sp) {
  uint64_t top = onstack_load_relaxed(&record->bounds.thread_pointer);
  return (onstack_stack_range){mapping->low, top > sp && top < mapping->high ? top : mapping->high};
}

/* Only private writable memory of no file can be a stack that stays where it is while its thread stands still. */
static void code_map_match_stacks(code_map_scan *scan, const onstack_mapping *mapping) {
  for (uint32_t r = 0; r < scan->record_count; r++) {
    onstack_thread *record = scan->records[r];
    for (uint32_t i = 0; i < 2; i++) {
      uint64_t asked = scan->asked[r][i];
      if (asked >= mapping->low && asked < mapping->high) scan->found[r][i] = code_map_bound(record, mapping, asked);
    }
    for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) {
      const onstack_stack_range *range = &record->bounds.ranges[i];
      /* Kept as it is while all of it is still mapped so; a stack outside is asked for anew. */
      if (range->high != 0 && range->low >= mapping->low && range->high <= mapping->high) scan->kept[r][i] = *range;
    }
  }
}

static void code_map_visit(void *data, const onstack_mapping *mapping) {
  code_map_scan *scan = data;
  if (mapping->executable) code_map_add_executable(scan, mapping);
  code_map_note_jumped(scan, mapping);
  if (mapping->readable && mapping->writable && !mapping->shared && mapping->inode == 0)
    code_map_match_stacks(scan, mapping);
}

/* The records in use, beginning after the last pass's end. */
static void code_map_collect_records(code_map_scan *scan) {
  const onstack_thread_table *table = &scan->slot->threads;
  uint32_t begin = scan->next_record;
  scan->record_count = 0;
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS && scan->record_count < CODE_MAP_RECORDS; i++) {
    uint32_t index = (begin + i) % ONSTACK_THREAD_RECORDS;
    if (onstack_observe(&table->tids[index]) == 0) continue;
    onstack_thread *record = &table->records[index];
    if (onstack_thread_is_claimed(record)) continue;
    memset(scan->kept[scan->record_count], 0, sizeof(scan->kept[0]));
    memset(scan->found[scan->record_count], 0, sizeof(scan->found[0]));
    for (uint32_t k = 0; k < 2; k++) scan->asked[scan->record_count][k] = onstack_load_relaxed(&record->bounds.requests[k]);
    scan->records[scan->record_count++] = record;
    scan->next_record = index + 1;
  }
}

static bool code_map_same_range(const onstack_stack_range *a, const onstack_stack_range *b) {
  return a->low == b->low && a->high == b->high;
}

/* Puts a range that was found into a record: over one that it covers, else over the one that is next. */
static void code_map_place(onstack_thread *record, onstack_thread_note *note, const onstack_stack_range *found) {
  uint32_t at = note->next_range % ONSTACK_STACK_RANGES;
  bool replaces = false;
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES && !replaces; i++) {
    if (record->bounds.ranges[i].high == 0 || code_map_same_range(&record->bounds.ranges[i], found)) {
      at = i;
      replaces = true;
    }
  }
  if (!replaces) note->next_range = (uint8_t)(at + 1);
  onstack_store_relaxed(&record->bounds.ranges[at].low, found->low);
  onstack_store_relaxed(&record->bounds.ranges[at].high, found->high);
}

static void code_map_give_bounds(code_map_scan *scan, uint32_t r) {
  onstack_thread *record = scan->records[r];
  bool changed = false;
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++)
    changed |= !code_map_same_range(&record->bounds.ranges[i], &scan->kept[r][i]);
  for (uint32_t i = 0; i < 2; i++) changed |= scan->found[r][i].high != 0;
  if (changed) {
    onstack_seqlock_write_begin(&record->lock);
    for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) {
      onstack_store_relaxed(&record->bounds.ranges[i].low, scan->kept[r][i].low);
      onstack_store_relaxed(&record->bounds.ranges[i].high, scan->kept[r][i].high);
    }
    for (uint32_t i = 0; i < 2; i++)
      if (scan->found[r][i].high)
        code_map_place(record, onstack_thread_note_of(&scan->slot->threads, record), &scan->found[r][i]);
    onstack_seqlock_write_end(&record->lock);
  }
  /* What was not found (a stack on shared memory, in a program's data) is read by copy, and not asked for again before
     the next housekeeping. The two halves of the range may be read apart: that costs a question or saves one. */
  for (uint32_t i = 0; i < 2; i++) {
    uint64_t asked = scan->asked[r][i];
    if (asked == 0 || !onstack_cas(&record->bounds.requests[i], &asked, (uint64_t)0) || scan->found[r][i].high != 0)
      continue;
    uint64_t near = asked & ~(CODE_MAP_NO_BOUNDS - 1);
    onstack_store_relaxed(&record->bounds.unknown.low, near);
    onstack_store_relaxed(&record->bounds.unknown.high, near + CODE_MAP_NO_BOUNDS);
  }
}

static void code_map_publish_ranges(const code_map_scan *scan) {
  if (scan->count == onstack_code.count &&
      memcmp(scan->ranges, onstack_code.ranges, scan->count * sizeof(scan->ranges[0])) == 0)
    return;
  onstack_seqlock_write_begin(&onstack_code.lock); /* readers accept every address */
  for (uint32_t i = 0; i < scan->count; i++) {
    onstack_store_relaxed(&onstack_code.ranges[i].low, scan->ranges[i].low);
    onstack_store_relaxed(&onstack_code.ranges[i].high, scan->ranges[i].high);
  }
  onstack_store_relaxed(&onstack_code.count, scan->count);
  onstack_seqlock_write_end(&onstack_code.lock);
}

int onstack_code_map_refresh(onstack_slot *slot) {
  code_map_scan *scan = &code_scan;
  pthread_mutex_lock(&code_map_lock);
  onstack_store_relaxed(&onstack_code.stale, 0u);
  onstack_store_relaxed(&onstack_code.missed, 0u);
  scan->slot = slot;
  scan->count = 0;
  scan->jumped = (onstack_code_range){0, 0};
  scan->jumped_is_there = false;
  scan->record_count = 0;
  if (slot) {
    onstack_store_relaxed(&slot->bounds_requested, 0u); /* before the records are read: a later request raises it again */
    code_map_collect_records(scan);
  }
  int result = onstack_proc_maps_each(code_map_visit, scan);
  if (result != 0 && onstack_code.count == 0) {
    /* No /proc: every plausible address may be code. The walk's other checks still hold. */
    scan->ranges[0] = (onstack_code_range){ONSTACK_ADDRESS_LOW, ONSTACK_ADDRESS_HIGH};
    scan->count = 1;
    code_map_publish_ranges(scan);
  } else if (result == 0) {
    code_map_publish_ranges(scan);
    code_map_publish_jumped(scan);
    for (uint32_t r = 0; r < scan->record_count; r++) code_map_give_bounds(scan, r);
  }
  onstack_go_runtime_refresh(); /* without /proc, too: whether Go is there decides what a session may do */
  pthread_mutex_unlock(&code_map_lock);
  return result;
}

void onstack_code_map_after_fork(void) {
  code_map_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  onstack_seqlock_after_fork(&onstack_code.lock);
}
