/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/threads.h"

#include "platform/process.h"
#include "platform/calls.h"
#include "sampler/threads/task.h"
#include "sampler/signal/own_threads.h"
#include "sampler/modules/modules.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_ASK_ROUNDS 64u   /* of a wait */
#define THREADS_DELIVERY_US 500u /* of CPU: what the kernel does between taking a signal and its action is some 1 us */
#define THREADS_DELIVERY_WAIT_NS 200000000u

static void *threads_region; /* NULL: not made yet; under the control lock */

int onstack_threads_prepare(void) {
  if (threads_region) return 0;
  void *memory =
      mmap(NULL, onstack_thread_region_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  onstack_thread_region_set(memory);
  onstack_readers_are_asked_by(onstack_threads_all_idle);
  threads_region = memory;
  return 0;
}

void onstack_threads_stay(void) {
  static bool counted;
  if (!counted) onstack_own_memory_keeps(threads_region, onstack_thread_region_bytes());
  counted = true;
}

void onstack_threads_unprepare(void) {
  if (!threads_region) return;
  onstack_thread_region_set(NULL);
  munmap(threads_region, onstack_thread_region_bytes());
  threads_region = NULL;
}

/* Pairs with onstack_threads_wait_scanned: stop sees the mark and waits, or we see its state. */
bool onstack_threads_scan_begin(onstack_slot *slot) {
  onstack_dekker_store(&slot->scanning, 1u);
  return onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING;
}

void onstack_threads_scan_end(onstack_slot *slot) { onstack_dekker_store(&slot->scanning, 0u); }

void onstack_threads_wait_scanned(onstack_slot *slot) {
  for (uint32_t round = 0; onstack_dekker_load(&slot->scanning) != 0; round++) onstack_moment(round);
}

/* In these rounds of a wait the kernel is asked whether the thread is still there. */
static bool threads_asks(uint32_t round) { return round % THREADS_ASK_ROUNDS == THREADS_ASK_ROUNDS - 1; }

/* A thread that has ended inside never leaves. A child of vfork is another process, and can be inside in its parent's
   memory. */
static bool threads_has_ended(uint32_t tid) {
  if (!onstack_task_is_gone(tid)) return false;
  return tid == (uint32_t)onstack_sys_getpid() || onstack_sys_call2(SYS_kill, (long)tid, 0) == -ESRCH;
}

static bool threads_are_outside(onstack_inside *inside, bool asks) {
  for (uint32_t i = 0; i < ONSTACK_INSIDE; i++) {
    const uint32_t tid = onstack_dekker_load(&inside->tids[i]);
    if (tid == 0) continue;
    if (!asks || !threads_has_ended(tid)) return false;
    onstack_inside_take_out(inside, tid);
  }
  return onstack_dekker_load(&inside->more) == 0;
}

void onstack_threads_wait_outside(onstack_inside *inside) {
  for (uint32_t round = 0; !threads_are_outside(inside, threads_asks(round)); round++) onstack_moment(round);
}

/* The thread has ended; if it did so inside of the handler, `busy` has stayed. */
static void threads_take_out(onstack_thread *record) {
  if (onstack_dekker_load(&record->busy) != 0) onstack_dekker_sub(&record->busy, 1u);
}

static void threads_wait(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  (void)slot;
  for (uint32_t round = 0; onstack_dekker_load(&record->busy) != 0; round++) {
    if (threads_asks(round) && onstack_task_is_gone(tid)) threads_take_out(record);
    onstack_moment(round);
  }
}

static void threads_wait_process_ticks(const onstack_slot *slot) {
  if (slot->process_clock) onstack_threads_wait_outside(&slot->process_clock->inside);
}

static void threads_each(const onstack_slot *slot, void (*visit)(const onstack_slot *, onstack_thread *, uint32_t)) {
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    uint32_t tid = onstack_observe(&slot->threads.tids[i]);
    if (tid != 0) visit(slot, &slot->threads.records[i], tid);
  }
}

/* What the last look has found blocked goes with its thread: nobody else is to have that time. By who takes the timer. */
static void threads_count_ended(const onstack_slot *slot, onstack_thread *record) {
  onstack_counters *counters = &onstack_slots[slot->index].counters;
  onstack_thread_note *note = onstack_thread_note_of(&slot->threads, record);
  const bool same = onstack_load_relaxed(&record->timer.ticks) == onstack_load_relaxed(&note->ticks);
  const uint64_t ended = same ? onstack_load_relaxed(&note->waiting) : 0;
  onstack_store_relaxed(&note->waiting, 0u);
  if (ended == 0) return;
  onstack_add_relaxed(&counters->ticks, ended); /* first: a process tick in between is to give that time to nobody */
  const uint64_t waiting = onstack_load_relaxed(&counters->waiting);
  onstack_store_relaxed(&counters->waiting, waiting > ended ? waiting - ended : 0);
  onstack_add_relaxed(&counters->dropped_stopping, ended);
  onstack_add_relaxed(&counters->blocked, ended);
}

static void threads_stop_timer(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  uint64_t now_ns = 0;
  int32_t id;
  if (!onstack_timer_take(&record->timer, ONSTACK_TIMER_STOPPED, &id)) return;
  if (!slot->timers->read(tid, &now_ns)) threads_count_ended(slot, record);
  onstack_thread_note_of(&slot->threads, record)->due = onstack_timer_due(&record->timer, slot->period, now_ns);
  slot->timers->remove(id);
}

/*
 * Only a handler of the process tick arms a thread, and one that saw RUNNING may be doing so at this very moment: that is
 * waited for, so that no timer is made any more while they are taken away. What ticks until then is counted.
 */
void onstack_threads_disarm_all(onstack_slot *slot) {
  threads_wait_process_ticks(slot);
  threads_each(slot, threads_stop_timer);
}

void onstack_threads_wait_idle(onstack_slot *slot) {
  threads_each(slot, threads_wait);
  threads_wait_process_ticks(slot);
  onstack_threads_wait_outside(&slot->visits);
}

bool onstack_threads_all_idle(void) {
  onstack_fence_dekker();
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    const onstack_slot *slot = &onstack_slots[i];
    if (!threads_are_outside(&onstack_slots[i].own_process_clock.inside, true)) return false;
    if (!slot->threads.tids) continue;
    if (!threads_are_outside(&onstack_slots[i].visits, true)) return false;
    for (uint32_t r = 0; r < ONSTACK_THREAD_RECORDS; r++)
      if (onstack_observe(&slot->threads.tids[r]) != 0 && onstack_dekker_load(&slot->threads.records[r].busy) != 0)
        return false;
  }
  return true;
}

static void threads_count_missing(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_counters *counters = &onstack_slots[slot->index].counters;
  onstack_thread_note *note = onstack_thread_note_of(&slot->threads, record);
  const uint64_t missing = onstack_timer_missing(&record->timer, note->due);
  onstack_add_relaxed(&counters->ticks, missing);
  onstack_add_relaxed(&counters->dropped_stopping, missing);
  if (missing > 0 && onstack_task_blocks(tid, slot->signal) > 0) onstack_add_relaxed(&counters->blocked, missing);
  const onstack_process_clock *clock = slot->process_clock;
  const bool awaited = missing > 0 || (clock && onstack_timer_missing(&clock->record->timer, clock->due) > 0);
  note->waited_us = awaited ? onstack_task_cpu_us(tid) : 0u;
}

void onstack_threads_count_missing(onstack_slot *slot) { threads_each(slot, threads_count_missing); }

static bool threads_is_past(uint32_t then_us, uint32_t tid) {
  const uint32_t now_us = then_us ? onstack_task_cpu_us(tid) : 0;
  return now_us == 0 || now_us - then_us >= THREADS_DELIVERY_US || onstack_task_sleeps(tid);
}

void onstack_threads_wait_delivered(const onstack_slot *slot) {
  const uint64_t until = onstack_monotonic_ns() + THREADS_DELIVERY_WAIT_NS;
  const uint32_t self = (uint32_t)onstack_sys_gettid();
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    const uint32_t tid = onstack_observe(&slot->threads.tids[i]);
    if (tid == 0 || tid == self) continue;
    while (!threads_is_past(slot->threads.notes[i].waited_us, tid) && onstack_monotonic_ns() < until)
      onstack_sys_sleep(50000);
  }
}

static void threads_release(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  int32_t id;
  (void)tid;
  /* Stop may be taking it at this moment: one of us removes it. */
  if (onstack_timer_take(&record->timer, ONSTACK_TIMER_NONE, &id)) {
    slot->timers->remove(id);
    threads_count_ended(slot, record);
  }
  onstack_timer_clear(&record->timer);
  onstack_thread_release(&slot->threads, record);
}

void onstack_threads_clear(onstack_slot *slot) { threads_each(slot, threads_release); }

/* It gets a new timer if it is another one than was armed. */
static void threads_doubt(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  int32_t id;
  if (onstack_timer_state_of(&record->timer) != ONSTACK_TIMER_ARMED) return;
  if (!slot->timers->doubts || !slot->timers->doubts(slot, tid)) return;
  onstack_slot *mine = &onstack_slots[slot->index];
  if (onstack_threads_scan_begin(mine) && onstack_timer_take(&record->timer, ONSTACK_TIMER_ARMING, &id)) {
    slot->timers->remove(id);
    threads_count_ended(slot, record);
    slot->timers->arm(mine, record, tid);
    /* Its name is another one, too. */
    onstack_thread_note_of(&slot->threads, record)->looked = (uint16_t)~onstack_load_relaxed(&record->timer.ticks);
  }
  onstack_threads_scan_end(mine);
}

/* A look into /proc costs ten times as much as to ask whether the thread exists, and is left for the threads that have
   samples: of ten thousand there are not many within a second. */
static void threads_tend_one(const onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  uint64_t name[2];
  onstack_thread_note *note = onstack_thread_note_of(&slot->threads, record);
  if (onstack_thread_is_claimed(record)) return;
  if (onstack_task_is_gone(tid)) {
    threads_take_out(record);
    threads_release(slot, record, tid);
    return;
  }
  onstack_store_relaxed(&record->bounds.unknown.high, onstack_load_relaxed(&record->bounds.unknown.low));
  const uint16_t ticks = (uint16_t)onstack_load_relaxed(&record->timer.ticks);
  if (ticks == note->looked) {
    threads_doubt(slot, record, tid);
    return;
  }
  note->looked = ticks; /* before the look: a tick meanwhile brings another one */
  if (onstack_task_name(tid, name)) onstack_thread_set_name(record, name);
}

void onstack_threads_tend(onstack_slot *slot) { threads_each(slot, threads_tend_one); }

/* That are due and have not come to a thread that blocks the signal. One or two may be on their way to any thread. Of one that
   has ended meanwhile what was seen of it stays, until its timer is taken. */
static uint32_t threads_note_waiting(const onstack_slot *slot, const onstack_timer *timer, uint32_t tid,
                                     onstack_thread_note *note) {
  const bool armed = onstack_timer_state_of(timer) == ONSTACK_TIMER_ARMED;
  uint64_t now_ns;
  if (armed && !slot->timers->read(tid, &now_ns)) return onstack_load_relaxed(&note->waiting);
  const uint32_t ticks = onstack_load_relaxed(&timer->ticks);
  const int32_t missing = armed ? (int32_t)(onstack_timer_due(timer, slot->period, now_ns) - ticks) : 0;
  const uint32_t waiting = missing > 2 && onstack_task_blocks(tid, slot->signal) > 0 ? (uint32_t)missing : 0;
  onstack_store_relaxed(&note->ticks, ticks);
  onstack_store_relaxed(&note->waiting, waiting);
  return waiting;
}

void onstack_threads_look_for_blocked(onstack_slot *slot) {
  const uint64_t process_ticks = onstack_load_relaxed(&slot->counters.process_ticks);
  uint64_t waiting = 0;
  if (process_ticks == slot->counters.process_ticks_looked && onstack_load_relaxed(&slot->counters.waiting) == 0) return;
  slot->counters.process_ticks_looked = process_ticks;
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    const uint32_t tid = onstack_observe(&slot->threads.tids[i]);
    if (tid != 0) waiting += threads_note_waiting(slot, &slot->threads.records[i].timer, tid, &slot->threads.notes[i]);
  }
  onstack_store_relaxed(&slot->counters.waiting, waiting);
}

int onstack_threads_are_all_ours(void) {
  char path[8];
  const uint64_t number = onstack_task_list_number();
  if (number == 0) return -errno;
  if (number <= onstack_own_count()) onstack_own_forget_killed();
  if (number != onstack_own_count() + 1) return 0;
  /* The other one is the first thread, always listed; when it has ended it has no program any more. */
  if (readlink("/proc/self/exe", path, sizeof(path)) >= 0) return 0;
  return errno == ENOENT ? 1 : -errno;
}

uint64_t onstack_threads_count(const onstack_slot *slot) {
  uint64_t count = 0;
  if (!slot->threads.tids) return 0;
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    if (onstack_observe(&slot->threads.tids[i]) == 0) continue;
    if (onstack_timer_state_of(&slot->threads.records[i].timer) == ONSTACK_TIMER_ARMED) count++;
  }
  return count;
}

static bool threads_has(const onstack_inside *inside, int32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_INSIDE; i++)
    if (onstack_load_relaxed(&inside->tids[i]) == (uint32_t)tid) return true;
  return false;
}

bool onstack_threads_in_handler(int32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    const onstack_slot *slot = &onstack_slots[i];
    if (threads_has(&onstack_slots[i].own_process_clock.inside, tid) || threads_has(&slot->visits, tid)) return true;
    if (onstack_dekker_load(&slot->state) < ONSTACK_SLOT_RUNNING) continue;
    const onstack_thread *record = onstack_thread_find(&slot->threads, (uint32_t)tid);
    if (record && onstack_load_relaxed(&record->busy) != 0) return true;
  }
  return false;
}
