/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/first_ticks.h"

#include "base/clock_ns.h"
#include "base/sys.h"
#include "handler/arch.h"
#include "handler/tick/arm.h"
#include "handler/tick/own_threads.h"
#include "handler/tick/room.h"
#include "handler/tick/timer.h"
#include "handler/unwind/rules/rules.h"
#include "handler/unwind/traceback_walk.h"
#include "handler/unwind/walk.h"
#include "preload/first_ticks_store.h"

#include <sys/prctl.h>
#include <time.h>

#define FIRST_TICKS_NS 20000000u
#define FIRST_TICKS_SOON_NS 100000u       /* what has expired when it is set ticks at once, and not with the kernel's tick */
#define FIRST_TICKS_SILENT_NS 3000000000u /* a keeper looks each half second */

/* Of one process each; the child of a fork has a copy. */
static struct {
  onstack_timer timer;
  uint32_t armed;
  uint32_t over; /* the tick that was enough has come */
  void (*enough)(void);
  uint64_t before_ns; /* of the kernel's tick that went by before the process began */
  uint64_t at_ns;     /* when the first one is due, from there on */
  uint64_t told;      /* ticks that came, as many as were due by the clock */
  uint64_t taken_ns;  /* CPU time that they stand for */
} first_ticks;

/* Below `below`. */
static ONSTACK_HANDLER uint64_t first_ticks_random(uint64_t below) {
  return onstack_arm_random(NULL, (uint32_t)onstack_sys_gettid(), onstack_first_ticks.birth, below) - 1;
}

void onstack_first_ticks_forked(void) {
  onstack_first_ticks_store_forked();
  first_ticks.armed = 0;
  first_ticks.timer.state = ONSTACK_TIMER_NONE;
}

/*
 * The kernel looks at CPU timers when its own tick comes (kernel/time/posix-cpu-timers.c), so one that expires in the last few
 * milliseconds of a process is never heard of: of a process of 3 ms that is most. Taken as a sample of the kernel's ticks it is
 * right again: each tick of the kernel tells of the expiries since the one before, and so the first one of those in the part of
 * a tick that went by before the process began. Returns that part. Ticks come at one instant of each of their periods
 * (CLOCK_MONOTONIC, kernel/time/tick-sched.c), which the ticks of other children have told; any instant, until one has.
 */
static uint64_t first_ticks_before_birth(uint64_t used_ns) {
  struct onstack_timespec tick = {0, 0};
  if (onstack_sys_call2(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick) < 0 || tick.nanoseconds <= 0) return 0;
  const uint64_t tick_ns = (uint64_t)tick.nanoseconds, met_ns = onstack_load_relaxed(&onstack_first_ticks.parent->met_ns);
  const uint64_t now_ns = onstack_monotonic_ns();
  const uint64_t since_ns = met_ns > 0 && now_ns > met_ns ? (now_ns - met_ns) % tick_ns : first_ticks_random(tick_ns);
  return since_ns > used_ns ? since_ns - used_ns : 0;
}

static bool first_ticks_arm(void) {
  const int32_t clock = CLOCK_PROCESS_CPUTIME_ID;
  const uint64_t period_ns = onstack_first_ticks.walk.period_ns, used_ns = onstack_clock_ns(clock);
  first_ticks.before_ns = first_ticks_before_birth(used_ns);
  first_ticks.at_ns = first_ticks_random(period_ns) + 1;
  first_ticks.timer.state = ONSTACK_TIMER_ARMING;
  onstack_timer_reset(&first_ticks.timer);
  if (onstack_timer_create(&first_ticks.timer, clock, SIGPROF, 0, (uint64_t)(uintptr_t)&first_ticks) < 0) return false;
  onstack_publish(&first_ticks.armed, 1u);
  const uint64_t first_ns = first_ticks.at_ns > first_ticks.before_ns ? first_ticks.at_ns - first_ticks.before_ns : 0;
  const uint64_t soon_ns = used_ns + FIRST_TICKS_SOON_NS;
  if (onstack_timer_set_at(&first_ticks.timer, first_ns > soon_ns ? first_ns : soon_ns, period_ns, true, NULL) == 0)
    return true;
  onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id));
  onstack_publish(&first_ticks.armed, 0u);
  return false;
}

static ONSTACK_HANDLER bool first_ticks_is_open(const onstack_first_ticks_store *store, uint64_t now_ns) {
  const uint64_t seen_ns = onstack_load_relaxed(&store->seen_ns);
  return onstack_observe(&store->open) && (now_ns < seen_ns || now_ns - seen_ns < FIRST_TICKS_SILENT_NS);
}

bool onstack_first_ticks_begin(void (*enough)(void)) {
  if (!onstack_first_ticks.parent || !first_ticks_is_open(onstack_first_ticks.parent, onstack_monotonic_ns())) return false;
  if (onstack_load_relaxed(onstack_first_ticks.walk.room) > onstack_first_ticks.walk.least) return false;
  first_ticks.enough = enough;
  onstack_first_ticks.birth = onstack_add_relaxed(&onstack_first_ticks.parent->births, 1u) + 1;
  first_ticks.over = 0;
  first_ticks.told = 0;
  first_ticks.taken_ns = 0;
  return first_ticks_arm();
}

bool onstack_first_ticks_are_over(void) { return onstack_observe(&first_ticks.armed) && onstack_observe(&first_ticks.over); }

uint64_t onstack_first_ticks_end(void) {
  if (!onstack_observe(&first_ticks.armed)) return 0;
  onstack_publish(&first_ticks.armed, 0u);
  onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id));
  return onstack_load_relaxed(&first_ticks.taken_ns);
}

/* ONSTACK_FIRST_TICKS_ENTRIES: there is none. */
static ONSTACK_HANDLER uint32_t first_ticks_claim(onstack_first_ticks_store *store) {
  for (uint32_t i = 0; i < ONSTACK_FIRST_TICKS_ENTRIES; i++) {
    uint32_t expected = onstack_load_relaxed(&store->states[i]);
    if (expected == ONSTACK_FIRST_TICKS_FREE &&
        onstack_cas(&store->states[i], &expected, (uint32_t)ONSTACK_FIRST_TICKS_CLAIMED))
      return i;
  }
  return ONSTACK_FIRST_TICKS_ENTRIES;
}

/* What other threads of the process may make of tables meanwhile waits for us, as for a traceback on demand. */
static ONSTACK_HANDLER void first_ticks_walk(onstack_first_ticks_entry *entry, const onstack_registers *registers,
                                             ucontext_t *context) {
  onstack_memory memory;
  onstack_traceback_enter();
  onstack_walk_prepare(&memory, onstack_first_ticks.walk.reader, onstack_first_ticks.walk.copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  const onstack_walk walk = {registers, context, &memory, NULL, entry->frames, ONSTACK_FIRST_TICKS_DEPTH, entry->unwound_by};
  const onstack_walk_result result = onstack_walk_run(onstack_first_ticks.walk.unwinder, &walk);
  onstack_traceback_leave();
  entry->count = (uint16_t)result.frame_count;
  entry->truncation = (uint16_t)result.truncation;
}

/* Code that was not there when the process began is another's in the process that collects. */
static ONSTACK_HANDLER bool first_ticks_knows(const onstack_first_ticks_entry *entry) {
  onstack_module module = {.low = 0};
  for (uint32_t i = 0; i < entry->count; i++) {
    const uint64_t address = entry->frames[i] - (i > 0);
    if (onstack_first_ticks_is_vdso(address)) continue; /* it lies where it lay */
    if (onstack_modules_find(address, &module) != ONSTACK_MODULE_HERE) return false;
  }
  return entry->count > 0;
}

/* False: there is no room, or no stack that the process that collects could name. */
static ONSTACK_HANDLER bool first_ticks_record(onstack_first_ticks_store *store, uint32_t weight, uint64_t now_ns,
                                               ucontext_t *context) {
  const bool room = onstack_has_room(context, onstack_first_ticks.walk.stack_bytes);
  const uint32_t claimed = room ? first_ticks_claim(store) : ONSTACK_FIRST_TICKS_ENTRIES;
  if (claimed == ONSTACK_FIRST_TICKS_ENTRIES) return false;
  onstack_registers registers;
  onstack_first_ticks_entry *entry = &store->entries[claimed];
  entry->weight = weight;
  entry->birth = onstack_first_ticks.birth;
  entry->map =
      onstack_seqlock_begin(&onstack_modules.lock) & ~1u; /* before the walk reads any of it; odd: of the one before */
  entry->tid = onstack_sys_gettid();
  entry->name[0] = entry->name[1] = 0;
  entry->time_ns = now_ns;
  onstack_sys_call2(SYS_prctl, PR_GET_NAME, (long)entry->name); /* writes at most 16 bytes */
  onstack_registers_from(&registers, context);
  first_ticks_walk(entry, &registers, context);
  const bool known = first_ticks_knows(entry);
  const bool keeps = known && entry->truncation == ONSTACK_TRUNCATED_PENDING;
  entry->kept = keeps ? onstack_keep(store->stacks, &registers) : 0;
  onstack_publish(&store->states[claimed], (uint32_t)(known ? ONSTACK_FIRST_TICKS_FILLED : ONSTACK_FIRST_TICKS_FREE));
  return known;
}

/* CPU time of the process without that of our own threads, as of the keeper's last look. */
static ONSTACK_HANDLER uint64_t first_ticks_used(void) {
  uint64_t used_ns = 0;
  onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &used_ns);
  const uint64_t own_ns = onstack_load_relaxed(&onstack_own_cpu_ns);
  return used_ns > own_ns ? used_ns - own_ns : 0;
}

/* How many are due by the clock that have not been told. The timer says when to look: it may have begun late, and our own
   threads move it on as well. */
static ONSTACK_HANDLER uint64_t first_ticks_due(uint64_t used_ns, uint64_t period_ns) {
  const uint64_t until_ns = used_ns + first_ticks.before_ns;
  const uint64_t due = until_ns < first_ticks.at_ns ? 0 : (until_ns - first_ticks.at_ns) / period_ns + 1;
  return due > first_ticks.told ? due - first_ticks.told : 0;
}

/*
 * The last tick comes when its time does, and the session's ticks begin anew: together they would stand for half a period more
 * than was used. So the last one counts as often as its time was used. Returns what it stands for.
 */
static ONSTACK_HANDLER uint64_t first_ticks_last(uint64_t ticks, uint64_t used_ns, uint64_t period_ns) {
  const uint64_t told_ns = (first_ticks.told + ticks) * period_ns;
  const uint64_t ahead_ns = told_ns > used_ns ? told_ns - used_ns : 0;
  const uint64_t more = ahead_ns / period_ns + (first_ticks_random(period_ns) < ahead_ns % period_ns);
  first_ticks.taken_ns = told_ns - ahead_ns;
  return ticks > more ? ticks - more : 0;
}

static ONSTACK_HANDLER void first_ticks_be_over(void) {
  onstack_publish(&first_ticks.over, 1u);
  first_ticks.enough();
}

static ONSTACK_HANDLER void first_ticks_tick(ucontext_t *context) {
  const uint64_t period_ns = onstack_first_ticks.walk.period_ns, most = onstack_first_ticks.walk.weight_max;
  const uint64_t used_ns = first_ticks_used();
  onstack_first_ticks_store *store = onstack_first_ticks.parent;
  uint64_t now_ns = 0, ticks = first_ticks_due(used_ns, period_ns);
  onstack_timer_read_clock(CLOCK_MONOTONIC, &now_ns);
  onstack_store_relaxed(&store->met_ns, now_ns);
  if (onstack_load_relaxed(&first_ticks.over)) return; /* the session counts what was used until it begins; */
  if (!first_ticks_is_open(store, now_ns)) {           /* and this tick, which nobody would collect */
    first_ticks_be_over();
    return;
  }
  if (ticks == 0) return;
  const bool last = (first_ticks.told + ticks) * period_ns >= FIRST_TICKS_NS;
  const uint64_t taken_ns = first_ticks.taken_ns, counted = last ? first_ticks_last(ticks, used_ns, period_ns) : ticks;
  const uint64_t weight = counted < most ? counted : most;
  first_ticks.told += ticks;
  if (!last) first_ticks.taken_ns = first_ticks.told * period_ns;
  if (weight > 0 && !first_ticks_record(store, (uint32_t)weight, now_ns, context)) {
    first_ticks.taken_ns = taken_ns; /* the session counts them */
    first_ticks_be_over();
    return;
  }
  if (counted > weight) onstack_add_relaxed(&store->lost, counted - weight);
  if (last) first_ticks_be_over();
}

ONSTACK_HANDLER bool onstack_first_ticks_take(const siginfo_t *info, void *context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (void *)&first_ticks) return false;
  if (onstack_observe(&first_ticks.armed)) first_ticks_tick(context);
  return true;
}
