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
  uint64_t base_ns;   /* CPU time of the process when its ticks began; the others are from there on */
  uint64_t tick_ns;   /* of the kernel; 0: not known */
  uint64_t begun_ns;  /* CLOCK_MONOTONIC, when the process's CPU time was base_ns */
  bool met;           /* the first tick has come, */
  uint64_t before_ns; /* and so long before they began was the kernel's last one */
  uint64_t at_ns;     /* when the first one is due, from there on */
  uint64_t told;      /* ticks that came, as many as were due by the clock */
  uint64_t taken_ns;  /* CPU time that they stand for */
  int32_t tid;        /* the thread that was looked at last, */
  uint64_t thread_ns; /* the CPU time that it had used by then, */
  uint64_t seen_ns;   /* and the process */
} first_ticks;

/* Below `below`. */
static ONSTACK_HANDLER uint64_t first_ticks_random(uint64_t below) {
  return onstack_arm_random(NULL, (uint32_t)onstack_sys_gettid(), onstack_first_ticks.birth, below) - 1;
}

void onstack_first_ticks_before_fork(void) {
  if (onstack_first_ticks.alone && onstack_observe(&first_ticks.armed)) first_ticks.enough();
  onstack_first_ticks_store_before_fork();
}

void onstack_first_ticks_forked(void) {
  onstack_first_ticks_store_forked();
  first_ticks.armed = 0;
  first_ticks.taken_ns = 0;
  first_ticks.timer.state = ONSTACK_TIMER_NONE;
}

static ONSTACK_HANDLER int first_ticks_set(uint64_t now_ns, uint64_t at_ns) {
  const uint64_t soon_ns = now_ns + FIRST_TICKS_SOON_NS;
  return onstack_timer_set_at(&first_ticks.timer, at_ns > soon_ns ? at_ns : soon_ns, onstack_first_ticks.walk.period_ns,
                              true, NULL);
}

/* Its first tick is the kernel's next one, whatever is due by then. */
static bool first_ticks_arm(uint64_t now_ns) {
  const int32_t clock = CLOCK_PROCESS_CPUTIME_ID;
  first_ticks.timer.state = ONSTACK_TIMER_ARMING;
  onstack_timer_reset(&first_ticks.timer);
  if (onstack_timer_create(&first_ticks.timer, clock, SIGPROF, 0, (uint64_t)(uintptr_t)&first_ticks) < 0) return false;
  onstack_publish(&first_ticks.armed, 1u);
  if (first_ticks_set(now_ns, 0) == 0) return true;
  onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id));
  onstack_publish(&first_ticks.armed, 0u);
  return false;
}

static ONSTACK_HANDLER bool first_ticks_is_open(const onstack_first_ticks_store *store, uint64_t now_ns) {
  const uint64_t seen_ns = onstack_load_relaxed(&store->seen_ns);
  return onstack_observe(&store->open) && (now_ns < seen_ns || now_ns - seen_ns < FIRST_TICKS_SILENT_NS);
}

/* The calling thread's CPU time is what the next tick is compared with. Returns by how much it has grown. */
static ONSTACK_HANDLER uint64_t first_ticks_look(uint64_t used_ns) {
  const int32_t tid = onstack_sys_gettid();
  uint64_t thread_ns = 0;
  onstack_timer_read_clock(CLOCK_THREAD_CPUTIME_ID, &thread_ns);
  const uint64_t grown_ns = tid == first_ticks.tid ? thread_ns - first_ticks.thread_ns : thread_ns;
  first_ticks.tid = tid;
  first_ticks.thread_ns = thread_ns;
  first_ticks.seen_ns = used_ns;
  return grown_ns;
}

bool onstack_first_ticks_begin(void (*enough)(void), uint64_t base_ns) {
  if (!onstack_first_ticks.into || !first_ticks_is_open(onstack_first_ticks.into, onstack_monotonic_ns())) return false;
  if (onstack_load_relaxed(onstack_first_ticks.walk.room) > onstack_first_ticks.walk.least) return false;
  uint64_t cpu_ns = 0;
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &cpu_ns)) return false; /* a filter refuses */
  first_ticks.enough = enough;
  onstack_first_ticks.birth = onstack_add_relaxed(&onstack_first_ticks.into->births, 1u) + 1;
  first_ticks.over = 0;
  first_ticks.told = 0;
  first_ticks.taken_ns = 0;
  first_ticks.base_ns = base_ns;
  first_ticks.at_ns = first_ticks_random(onstack_first_ticks.walk.period_ns) + 1;
  first_ticks.before_ns = 0;
  first_ticks.met = false;
  struct onstack_timespec tick = {0, 0};
  const bool known = onstack_sys_call2(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick) == 0;
  first_ticks.tick_ns = known && tick.nanoseconds > 0 ? (uint64_t)tick.nanoseconds : 0;
  const uint64_t used_ns = cpu_ns - base_ns;
  first_ticks.begun_ns = onstack_monotonic_ns() - used_ns;
  first_ticks_look(used_ns);
  return first_ticks_arm(cpu_ns);
}

bool onstack_first_ticks_are_over(void) { return onstack_observe(&first_ticks.armed) && onstack_observe(&first_ticks.over); }

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

/* False: it is not to be taken. */
static ONSTACK_HANDLER bool first_ticks_walk_shared(onstack_first_ticks_store *store, onstack_first_ticks_entry *entry,
                                                    const onstack_registers *registers, ucontext_t *context) {
  entry->map =
      onstack_seqlock_begin(&onstack_modules.lock) & ~1u; /* before the walk reads any of it; odd: of the one before */
  first_ticks_walk(entry, registers, context);
  const bool known = first_ticks_knows(entry);
  const bool keeps = known && entry->truncation == ONSTACK_TRUNCATED_PENDING;
  entry->kept = keeps ? onstack_keep(store->stacks, registers) : 0;
  return known;
}

/* Nothing is known of the process yet, not even what is loaded: all of the walk is done later. */
static ONSTACK_HANDLER bool first_ticks_keep_alone(onstack_first_ticks_store *store, onstack_first_ticks_entry *entry,
                                                   const onstack_registers *registers) {
  entry->frames[0] = registers->pc;
  entry->unwound_by[0] = 0;
  entry->count = 1;
  entry->truncation = ONSTACK_TRUNCATED_PENDING;
  entry->kept = onstack_keep(store->stacks, registers);
  if (entry->kept == 0) return false;
  onstack_add_relaxed(&onstack_first_ticks.held, 1u);
  return true;
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
  entry->tid = onstack_sys_gettid();
  entry->name[0] = entry->name[1] = 0;
  entry->time_ns = now_ns;
  onstack_sys_call2(SYS_prctl, PR_GET_NAME, (long)entry->name); /* writes at most 16 bytes */
  onstack_registers_from(&registers, context);
  const bool known = onstack_first_ticks.alone ? first_ticks_keep_alone(store, entry, &registers)
                                               : first_ticks_walk_shared(store, entry, &registers, context);
  onstack_publish(&store->states[claimed], (uint32_t)(known ? ONSTACK_FIRST_TICKS_FILLED : ONSTACK_FIRST_TICKS_FREE));
  return known;
}

/* Of our own threads as of the keeper's last look. */
ONSTACK_HANDLER uint64_t onstack_first_ticks_used_ns(void) {
  uint64_t used_ns = 0;
  onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &used_ns);
  const uint64_t own_ns = onstack_load_relaxed(&onstack_own_cpu_ns);
  return used_ns > own_ns + first_ticks.base_ns ? used_ns - own_ns - first_ticks.base_ns : 0;
}

/* How many are due by the clock until then that have not been told. The timer says when to look: it may have begun late, and
   our own threads move it on as well. */
static ONSTACK_HANDLER uint64_t first_ticks_due(uint64_t until_ns, uint64_t period_ns) {
  const uint64_t due = until_ns < first_ticks.at_ns ? 0 : (until_ns - first_ticks.at_ns) / period_ns + 1;
  return due > first_ticks.told ? due - first_ticks.told : 0;
}

/* A process that ends before its session has had all ticks that it gets, as far as the kernel's tick has told them: what none
   of them stands for others stand for. Not where they do not come, as the signal is blocked. */
static uint64_t first_ticks_stand_for(void) {
  const uint64_t used_ns = onstack_first_ticks_used_ns(), late_ns = 2 * first_ticks.tick_ns;
  const bool come = used_ns < late_ns ||
                    first_ticks_due(used_ns - late_ns + first_ticks.before_ns, onstack_first_ticks.walk.period_ns) == 0;
  return come ? used_ns : first_ticks.taken_ns;
}

uint64_t onstack_first_ticks_end(void) {
  uint32_t armed = 1;
  /* The thread that ends and the keeper may both come. */
  if (onstack_load_relaxed(&first_ticks.armed) && onstack_cas(&first_ticks.armed, &armed, 0u)) {
    onstack_fence_dekker();                                            /* before `inside` is read (first_ticks_store.c) */
    onstack_timer_delete(onstack_load_relaxed(&first_ticks.timer.id)); /* while it is there the process's clock stands
                                                                          between two ticks of the kernel's */
    const bool early = onstack_first_ticks.alone && !onstack_observe(&first_ticks.over);
    if (early) onstack_store_relaxed(&first_ticks.taken_ns, first_ticks_stand_for());
  }
  return onstack_load_relaxed(&first_ticks.taken_ns);
}

static ONSTACK_HANDLER void first_ticks_be_over(void) {
  onstack_publish(&first_ticks.over, 1u);
  first_ticks.enough();
}

/*
 * The kernel looks at CPU timers when its own tick comes (kernel/time/posix-cpu-timers.c), so one that expires in the last few
 * milliseconds of a process is never heard of: of a process of 3 ms that is most. Taken as a sample of the kernel's ticks it is
 * right again: each tick of the kernel tells of the expiries since the one before, and so the first one of those in the part of
 * a tick that went by before the process began. Ticks come at one instant of each of their periods (CLOCK_MONOTONIC,
 * kernel/time/tick-sched.c), which this one tells.
 */
static ONSTACK_HANDLER void first_ticks_meet(uint64_t now_ns) {
  const uint64_t tick_ns = first_ticks.tick_ns, since_ns = now_ns - first_ticks.begun_ns;
  first_ticks.met = true;
  if (tick_ns > 0) first_ticks.before_ns = (tick_ns - since_ns % tick_ns) % tick_ns;
}

/* When the next one is due, or there have been enough. Refused: a period after this one. */
static ONSTACK_HANDLER void first_ticks_set_next(uint64_t used_ns, uint64_t period_ns) {
  const uint64_t due_ns = first_ticks.at_ns + first_ticks.told * period_ns - first_ticks.before_ns; /* more than used_ns */
  const uint64_t others_ns = first_ticks.base_ns + onstack_load_relaxed(&onstack_own_cpu_ns);
  first_ticks_set(others_ns + used_ns, others_ns + (due_ns < FIRST_TICKS_NS ? due_ns : FIRST_TICKS_NS));
}

/* Before Linux 6.4 the first thread is met as well while it sleeps and others work; whose tick it is the session finds out. */
static ONSTACK_HANDLER bool first_ticks_met_who_works(uint64_t used_ns) {
  const uint64_t since_ns = used_ns - first_ticks.seen_ns;
  return first_ticks_look(used_ns) >= since_ns / 2;
}

/* Tells so many; false: they cannot be taken, and the session counts them. */
static ONSTACK_HANDLER bool first_ticks_tell(onstack_first_ticks_store *store, uint64_t ticks, uint64_t used_ns,
                                             uint64_t now_ns, ucontext_t *context) {
  const uint64_t most = onstack_first_ticks.walk.weight_max, weight = ticks < most ? ticks : most;
  if (ticks == 0) return true;
  if (!first_ticks_met_who_works(used_ns)) return false;
  if (!first_ticks_record(store, (uint32_t)weight, now_ns, context)) return false;
  if (ticks > weight) onstack_add_relaxed(&store->lost, ticks - weight);
  first_ticks.told += ticks;
  return true;
}

/*
 * The end comes by the CPU time alone. If a tick were the last one because of its own time, what a process had by its end would
 * depend on its phase. Who goes on to a session has no part of a kernel's tick that nothing tells of.
 */
static ONSTACK_HANDLER void first_ticks_tick(ucontext_t *context) {
  const uint64_t period_ns = onstack_first_ticks.walk.period_ns, used_ns = onstack_first_ticks_used_ns();
  onstack_first_ticks_store *store = onstack_first_ticks.into;
  uint64_t now_ns = 0;
  if (onstack_load_relaxed(&first_ticks.over)) return; /* the session counts what was used until it begins */
  /* By a filter that came later: without clocks the next tick would be set to an instant that has passed, and come at once. */
  if (used_ns == 0 || !onstack_timer_read_clock(CLOCK_MONOTONIC, &now_ns)) {
    first_ticks_be_over();
    return;
  }
  if (!first_ticks.met) first_ticks_meet(now_ns);
  const bool last = used_ns >= FIRST_TICKS_NS;
  const uint64_t until_ns = last ? used_ns : used_ns + first_ticks.before_ns;
  const bool told = first_ticks_is_open(store, now_ns) && /* else nobody would collect this tick */
                    first_ticks_tell(store, first_ticks_due(until_ns, period_ns), used_ns, now_ns, context);
  if (told) first_ticks.taken_ns = until_ns;
  if (last || !told)
    first_ticks_be_over();
  else
    first_ticks_set_next(used_ns, period_ns);
}

ONSTACK_HANDLER bool onstack_first_ticks_take(const siginfo_t *info, void *context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (void *)&first_ticks) return false;
  if (onstack_own_is(onstack_sys_gettid())) return true;
  /* The tick of another thread is being told: the next one counts this one by the clock. */
  if (onstack_dekker_add(&onstack_first_ticks.inside, 1u) == 0 && onstack_dekker_load(&first_ticks.armed))
    first_ticks_tick(context);
  onstack_dekker_sub(&onstack_first_ticks.inside, 1u);
  return true;
}
