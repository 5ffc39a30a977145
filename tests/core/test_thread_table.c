/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Thread records alone: claim, find, release with colliding ids; cookies; the sequence lock of name and bounds. */
#include "sampler/threads/thread_table.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static onstack_thread_table table;

static void setup_table(void) {
  t_setup();
  void *memory = calloc(1, onstack_thread_region_bytes() + 4096);
  onstack_thread_region_set((void *)(((uintptr_t)memory + 4095) & ~(uintptr_t)4095));
  onstack_thread_table_init(&table, 3);
}
TestSuite(thread_table, .init = setup_table);

static onstack_thread *claim(uint32_t tid) {
  onstack_thread *record = onstack_thread_claim(&table, tid);
  if (record) {
    cr_assert(onstack_thread_is_claimed(record));
    cr_assert(onstack_timer_move(&record->timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_UNWANTED));
  }
  return record;
}

static void release(onstack_thread *record) {
  onstack_timer_clear(&record->timer);
  onstack_thread_release(&table, record);
}

Test(thread_table, a_claimed_record_is_found_by_its_id_alone) {
  cr_assert_null(onstack_thread_find(&table, 4711));
  onstack_thread *record = claim(4711);
  cr_assert_not_null(record);
  cr_assert_eq(onstack_thread_find(&table, 4711), record);
  cr_assert_eq(onstack_thread_tid(&table, record), 4711);
  cr_assert_null(onstack_thread_find(&table, 4712));
  cr_assert_eq(onstack_thread_tid(&table, table.process), 0);
  release(record);
  cr_assert_null(onstack_thread_find(&table, 4711));
  cr_assert_eq(onstack_thread_tid(&table, record), 0);
}

/* Ids that share a home: how many of a family fit, that each stays findable whatever is released, and that a full home
   says so. The family is found by trying, so that the hash may change. */
Test(thread_table, colliding_ids) {
  enum { STRIDE = ONSTACK_THREAD_RECORDS, MANY = 200 };
  onstack_thread *records[MANY];
  int fit = 0;
  while (fit < MANY && (records[fit] = claim(1000 + (uint32_t)fit * STRIDE))) fit++;
  cr_assert_eq(fit, ONSTACK_THREAD_BUCKET * ONSTACK_THREAD_WINDOW, "ids a table's size apart share a home: %d", fit);
  for (int i = 0; i < fit; i++) {
    cr_assert_eq(onstack_thread_find(&table, 1000 + (uint32_t)i * STRIDE), records[i]);
    for (int j = 0; j < i; j++) cr_assert_neq(records[i], records[j]);
  }
  release(records[0]);
  release(records[20]);
  for (int i = 1; i < fit; i++)
    cr_assert_eq(onstack_thread_find(&table, 1000 + (uint32_t)i * STRIDE), i == 20 ? NULL : records[i],
                 "a gap does not hide what lies behind it");
  cr_assert_eq(claim(77 * STRIDE + 1000), records[0]);
  cr_assert_eq(claim(78 * STRIDE + 1000), records[20]);
  cr_assert_null(claim(79 * STRIDE + 1000));
  cr_assert_not_null(claim(1000 + STRIDE / 2), "other homes have room");
}

/* Kernel ids come in sequence: a crowd of them must fit. */
Test(thread_table, ten_thousand_ids_in_sequence_fit) {
  for (uint32_t tid = 30000; tid < 40000; tid++) cr_assert_not_null(claim(tid), "%u", tid);
  for (uint32_t tid = 30000; tid < 40000; tid++) {
    onstack_thread *record = onstack_thread_find(&table, tid);
    cr_assert_not_null(record);
    cr_assert_eq(onstack_thread_tid(&table, record), tid);
  }
}

Test(thread_table, cookies_name_record_slot_and_generation) {
  onstack_thread *record = claim(5);
  for (uint32_t g = 0; g < 300; g++) {
    const onstack_thread_tick tick = onstack_thread_from_cookie(onstack_thread_cookie(record, g));
    cr_assert_eq(tick.record, record);
    cr_assert_eq(tick.slot, 3);
    cr_assert_eq(tick.generation, g % ONSTACK_THREAD_GENERATIONS);
  }
  record = onstack_thread_of_process_clock(3);
  const onstack_thread_tick tick = onstack_thread_from_cookie(onstack_thread_cookie(record, 7));
  cr_assert_eq(tick.record, record);
  cr_assert_eq(tick.slot, ONSTACK_MAX_SESSIONS + 3);
  /* Numbers that are no cookies: around the region, the ids behind the records, and what others use. */
  uint64_t region = (uint64_t)(uintptr_t)table.records - 3ull * ONSTACK_THREAD_RECORDS * sizeof(onstack_thread);
  uint64_t end = region + (8ull * ONSTACK_THREAD_RECORDS + 8) * sizeof(onstack_thread);
  const uint64_t others[] = {
      0, 1, region - 1, end, end + 64, UINT64_MAX, (uint64_t)(uintptr_t)&region, (uint64_t)(uintptr_t)table.process};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    cr_assert_null(onstack_thread_from_cookie(others[i]).record, "%lx", others[i]);
}

Test(thread_table, a_released_record_is_clean_for_the_next) {
  onstack_thread *record = claim(9);
  onstack_seqlock_write_begin(&record->lock);
  record->name[0] = 0x41414141;
  record->bounds.ranges[1] = (onstack_stack_range){0x1000, 0x2000};
  onstack_seqlock_write_end(&record->lock);
  onstack_stack_bounds_request(&record->bounds, 0x123000);
  release(record);
  cr_assert_eq(claim(9), record);
  uint64_t name[2];
  onstack_stack_range ranges[ONSTACK_STACK_RANGES];
  cr_assert(onstack_thread_snapshot(record, name, ranges));
  cr_assert_eq(name[0], 0);
  cr_assert_eq(ranges[1].high, 0);
  cr_assert_eq(record->bounds.requests[0], 0);
}

Test(thread_table, wants_are_news_once) {
  onstack_thread *record = claim(11);
  cr_assert(onstack_stack_bounds_request(&record->bounds, 0x10000));
  cr_assert_not(onstack_stack_bounds_request(&record->bounds, 0x10000));
  cr_assert(onstack_stack_bounds_request(&record->bounds, 0x20000));
  cr_assert_not(onstack_stack_bounds_request(&record->bounds, 0x30000), "two at a time");
}

/* ---- two threads ---- */

static volatile bool over;
static void *rewrites(void *data) {
  onstack_thread *record = data;
  for (uint64_t i = 1; !over; i++) {
    onstack_seqlock_write_begin(&record->lock);
    record->name[0] = record->name[1] = i;
    for (int r = 0; r < (int)ONSTACK_STACK_RANGES; r++) record->bounds.ranges[r] = (onstack_stack_range){i, i + 1};
    onstack_seqlock_write_end(&record->lock);
  }
  return NULL;
}

Test(thread_table, a_snapshot_is_of_one_moment_or_empty) {
  onstack_thread *record = claim(13);
  pthread_t writer;
  pthread_create(&writer, NULL, rewrites, record);
  uint64_t whole = 0;
  double end = t_now() + 1.0;
  while (t_now() < end) {
    uint64_t name[2];
    onstack_stack_range ranges[ONSTACK_STACK_RANGES];
    bool taken = onstack_thread_snapshot(record, name, ranges);
    whole += taken && name[0] != 0;
    for (int r = 0; r < (int)ONSTACK_STACK_RANGES; r++) {
      cr_assert_eq(ranges[r].low, name[0]);
      cr_assert_eq(ranges[r].high, taken && name[0] ? name[0] + 1 : 0);
    }
    cr_assert_eq(name[0], name[1]);
  }
  over = true;
  pthread_join(writer, NULL);
  cr_assert_gt(whole, 100);
}

static void *claims_odd(void *unused) {
  for (uint32_t tid = 50001; tid < 56000; tid += 2)
    if (!onstack_thread_claim(&table, tid)) return (void *)1;
  return unused;
}
Test(thread_table, claims_of_two_threads_do_not_collide) {
  pthread_t other;
  void *failed;
  pthread_create(&other, NULL, claims_odd, NULL);
  for (uint32_t tid = 50000; tid < 56000; tid += 2) cr_assert_not_null(onstack_thread_claim(&table, tid));
  pthread_join(other, &failed);
  cr_assert_null(failed);
  for (uint32_t tid = 50000; tid < 56000; tid++) {
    onstack_thread *record = onstack_thread_find(&table, tid);
    cr_assert_not_null(record, "%u", tid);
    cr_assert_eq(onstack_thread_tid(&table, record), tid);
  }
}
