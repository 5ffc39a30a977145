/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/first_ticks.h"

#include "base/atomics.h"
#include "base/clock_ns.h"
#include "base/sys.h"
#include "control/unwind/modules.h"
#include "handler/arch.h"
#include "handler/tick/arm.h"
#include "handler/tick/kept.h"
#include "handler/tick/own_threads.h"
#include "handler/tick/room.h"
#include "handler/tick/timer.h"
#include "handler/unwind/rules/rules.h"
#include "handler/unwind/traceback_walk.h"
#include "handler/unwind/walk.h"
#include "session/start.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#define FIRST_TICKS_DEPTH 100u
#define FIRST_TICKS_ENTRIES 1024u /* 1 MiB; with the stacks 28 MiB of addresses, of which what is used becomes memory */
#define FIRST_TICKS_NS 20000000u
#define FIRST_TICKS_VDSO 16384u           /* bytes that it takes at most */
#define FIRST_TICKS_SOON_NS 100000u       /* what has expired when it is set ticks at once, and not with the kernel's tick */
#define FIRST_TICKS_SILENT_NS 3000000000u /* a keeper looks each half second */
#define FIRST_TICKS_TRIES 100u            /* to read the map while it is written, */
#define FIRST_TICKS_AGAIN_NS 100000u      /* and so long between two */
#define FIRST_TICKS_KEPT_NS 100000000u    /* by then a child that works all the time has its session */

enum { FIRST_TICKS_FREE, FIRST_TICKS_CLAIMED, FIRST_TICKS_FILLED };

typedef struct first_ticks_entry {
  uint32_t weight;
  uint32_t birth; /* of the child */
  uint32_t map;   /* the sequence of its map of modules, before the walk (handler/unwind/rules/rules.h) */
  uint32_t kept;  /* its stack's number among those that are kept; 0: it is not */
  int32_t tid;
  uint16_t count;
  uint16_t truncation;
  uint64_t time_ns;
  uint64_t name[2];
  uint64_t frames[FIRST_TICKS_DEPTH];
  uint8_t unwound_by[FIRST_TICKS_DEPTH];
} first_ticks_entry;

/* Shared by a process that has a session and its children, each of which may have written anything: whoever reads it checks
   each number that leads to memory. */
typedef struct first_ticks_shared {
  uint32_t open;    /* somebody collects, */
  uint32_t births;  /* of children that share it. Process ids are another's in a namespace */
  uint64_t seen_ns; /* and did so last (CLOCK_MONOTONIC): who was killed has not closed it */
  uint64_t lost;    /* ticks that could not be kept */
  uint64_t met_ns;  /* CLOCK_MONOTONIC, when the last one came */
  /* A child that is killed between claim and fill leaves its entry claimed: one of many, and it is not waited for. Apart from
     the entries, of which so many become memory as are in use at a time. */
  uint32_t states[FIRST_TICKS_ENTRIES];
  first_ticks_entry entries[FIRST_TICKS_ENTRIES];
  onstack_kept stacks[ONSTACK_KEPT_STACKS]; /* the same holds for them */
} first_ticks_shared;

/* Who takes them. */
typedef struct first_ticks_taker {
  onstack_session *session;
  onstack_profile *profile;
} first_ticks_taker;

/* Of one process each; the child of a fork has a copy. */
static struct {
  uint64_t vdso;              /* where it begins */
  onstack_session_walk walk;  /* of the session that is, or of the parent's; written before `open` */
  uint32_t wanted;            /* a session is on: its children share with it */
  first_ticks_shared *own;    /* this process collects from it; NULL: it has not forked yet */
  first_ticks_shared *parent; /* it is collected from elsewhere */
  uint64_t samples, weight;   /* that are in this process's profile */
  uint64_t truncated;         /* of the samples */
  onstack_timer timer;
  uint32_t armed;
  uint32_t over; /* the tick that was enough has come */
  void (*enough)(void);
  uint32_t birth;
  uint64_t before_ns; /* of the kernel's tick that went by before the process began */
  uint64_t at_ns;     /* when the first one is due, from there on */
  uint64_t told;      /* ticks that came, as many as were due by the clock */
  uint64_t taken_ns;  /* CPU time that they stand for */
} first_ticks;

/* Below `below`. */
static ONSTACK_HANDLER uint64_t first_ticks_random(uint64_t below) {
  return onstack_arm_random(NULL, (uint32_t)onstack_sys_gettid(), first_ticks.birth, below) - 1;
}

void onstack_first_ticks_open(const onstack_session *session) {
  first_ticks.walk = onstack_session_walk_of(session);
  first_ticks.vdso = getauxval(AT_SYSINFO_EHDR);
  if (first_ticks.own) onstack_store_relaxed(&first_ticks.own->seen_ns, onstack_monotonic_ns());
  if (first_ticks.own) onstack_publish(&first_ticks.own->open, 1u);
  onstack_publish(&first_ticks.wanted, 1u);
}

void onstack_first_ticks_close(void) {
  first_ticks_shared *own = onstack_observe(&first_ticks.own);
  onstack_publish(&first_ticks.wanted, 0u);
  if (own) onstack_publish(&own->open, 0u);
}

static ONSTACK_HANDLER bool first_ticks_is_vdso(uint64_t address) { return address - first_ticks.vdso < FIRST_TICKS_VDSO; }

/* Whether a module of this process holds the address that did so when the map had this sequence. */
static bool first_ticks_held(uint64_t address, uint32_t map) {
  onstack_module module = {.low = 0};
  for (uint32_t i = 0; i < FIRST_TICKS_TRIES; i++) {
    switch (onstack_modules_find(address, &module)) {
    case ONSTACK_MODULE_HERE:
      return (int32_t)(module.since - map) <= 0;
    case ONSTACK_MODULE_NONE:
      return false;
    default:
      onstack_sys_sleep(FIRST_TICKS_AGAIN_NS); /* another thread is writing it */
    }
  }
  return false;
}

/* The frames whose code is here what it was there. A library that was closed since may have another at its place, and what was
   walked on here may lead into code that only one of the two has. */
static uint32_t first_ticks_believed(const onstack_walked *stack, uint32_t map) {
  for (uint32_t i = 0; i < stack->count; i++) {
    const uint64_t address = stack->frames[i] - (i > 0);
    if (!first_ticks_is_vdso(address) && !first_ticks_held(address, map)) return i;
  }
  return stack->count;
}

/* Finds the rest of a stack, and cuts what is not to be believed. False: nothing of it is. */
static bool first_ticks_complete(const first_ticks_taker *to, const first_ticks_entry *entry, onstack_kept *kept,
                                 onstack_walked *stack) {
  if (to->session) onstack_session_walk_again(to->session, kept, stack);
  onstack_walk_result result = {stack->count, stack->truncation};
  onstack_walk_check(first_ticks.walk.copy_works, stack->frames, stack->unwound_by, &result);
  stack->count = result.frame_count;
  stack->truncation = result.truncation;
  const uint32_t believed = first_ticks_believed(stack, entry->map);
  if (believed < stack->count) stack->truncation = ONSTACK_TRUNCATED_PENDING;
  stack->count = believed;
  return believed > 0;
}

static bool first_ticks_give(const first_ticks_taker *to, first_ticks_entry *entry, onstack_kept *kept) {
  char name[sizeof(entry->name) + 1] = {0};
  onstack_walked stack = {entry->frames, entry->unwound_by, onstack_load_relaxed(&entry->count),
                          onstack_load_relaxed(&entry->truncation)};
  if (stack.count == 0 || stack.count > FIRST_TICKS_DEPTH || stack.truncation >= ONSTACK_TRUNCATION_COUNT) return false;
  if (!first_ticks_complete(to, entry, kept, &stack)) return false;
  memcpy(name, entry->name, sizeof(entry->name));
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_CPU,
                                 .time_ns = entry->time_ns,
                                 .value = entry->weight * first_ticks.walk.period_ns,
                                 .period = first_ticks.walk.period_ns,
                                 .unit = ONSTACK_UNIT_NANOSECONDS,
                                 .weight = entry->weight,
                                 .tid = entry->tid,
                                 .truncation = stack.truncation,
                                 .thread_name = name,
                                 .frames = stack.frames,
                                 .frame_count = stack.count};
  first_ticks.truncated += stack.truncation != ONSTACK_TRUNCATED_NOT;
  return onstack_profile_sink(to->profile, &sample) == 0;
}

static onstack_kept *first_ticks_kept(first_ticks_shared *shared, const first_ticks_entry *entry) {
  const uint32_t number = onstack_load_relaxed(&entry->kept);
  return number - 1 < ONSTACK_KEPT_STACKS ? &shared->stacks[number - 1] : NULL;
}

/* Gives those of child `birth` (0: of any) that came before `before_ns` to the profile; returns how many it took. */
static uint32_t first_ticks_move(first_ticks_shared *shared, const first_ticks_taker *to, uint32_t birth,
                                 uint64_t before_ns) {
  uint32_t given = 0;
  onstack_modules_refresh(0); /* what has been loaded and closed until now */
  for (uint32_t i = 0; i < FIRST_TICKS_ENTRIES; i++) {
    first_ticks_entry *entry = &shared->entries[i];
    uint32_t expected = FIRST_TICKS_FILLED;
    if (onstack_observe(&shared->states[i]) != FIRST_TICKS_FILLED) continue;
    if ((birth != 0 && entry->birth != birth) || entry->time_ns >= before_ns) continue;
    /* The child and its parent may both want it. */
    if (!onstack_cas(&shared->states[i], &expected, (uint32_t)FIRST_TICKS_CLAIMED)) continue;
    if (birth != 0 && entry->birth != birth) { /* the parent had it meanwhile, and another child has filled it again */
      onstack_publish(&shared->states[i], (uint32_t)FIRST_TICKS_FILLED);
      continue;
    }
    onstack_kept *kept = first_ticks_kept(shared, entry);
    if (first_ticks_give(to, entry, kept)) {
      first_ticks.weight += entry->weight;
      given++;
    } else {
      onstack_add_relaxed(&shared->lost, (uint64_t)entry->weight);
    }
    if (kept) onstack_session_release(shared->stacks, kept);
    onstack_publish(&shared->states[i], (uint32_t)FIRST_TICKS_FREE);
  }
  first_ticks.samples += given;
  return given;
}

uint32_t onstack_first_ticks_collect(onstack_session *session, onstack_profile *profile, bool all) {
  first_ticks_shared *own = onstack_observe(&first_ticks.own);
  if (!own) return 0;
  const uint64_t now_ns = onstack_monotonic_ns();
  onstack_store_relaxed(&own->seen_ns, now_ns);
  return first_ticks_move(own, &(first_ticks_taker){session, profile}, 0, all ? UINT64_MAX : now_ns - FIRST_TICKS_KEPT_NS);
}

void onstack_first_ticks_take_back(onstack_session *session, onstack_profile *profile) {
  if (!first_ticks.parent) return;
  first_ticks_move(first_ticks.parent, &(first_ticks_taker){session, profile}, first_ticks.birth, UINT64_MAX);
}

int onstack_first_ticks_tell(int (*write)(void *data, const void *bytes, size_t length), void *data) {
  char text[200];
  const first_ticks_shared *own = onstack_observe(&first_ticks.own);
  const uint64_t lost = own ? onstack_load_relaxed(&own->lost) : 0;
  const int length =
      snprintf(text, sizeof(text),
               "onstack.first_ticks samples=%" PRIu64 " weight=%" PRIu64 " dropped=%" PRIu64 " truncated=%" PRIu64 "\n",
               first_ticks.samples, first_ticks.weight, lost, first_ticks.truncated);
  return first_ticks.samples + lost > 0 ? write(data, text, (size_t)length) : 0;
}

void onstack_first_ticks_before_fork(void) {
  first_ticks_shared *none = NULL;
  if (!onstack_observe(&first_ticks.wanted) || onstack_load_relaxed(&first_ticks.own)) return;
  void *made = mmap(NULL, sizeof(*none), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return; /* children begin with a session */
  ((first_ticks_shared *)made)->seen_ns = onstack_monotonic_ns();
  ((first_ticks_shared *)made)->open = 1;
  if (!onstack_cas(&first_ticks.own, &none, made)) munmap(made, sizeof(*none)); /* another thread forks as well */
}

/* What the parent has collected is its own. What its own parent collects is not used any more, unless a handler forked that has
   interrupted a walk. */
void onstack_first_ticks_forked(void) {
  if (first_ticks.own && first_ticks.parent && !onstack_traceback_is_busy())
    onstack_sys_call2(SYS_munmap, (long)first_ticks.parent, sizeof(*first_ticks.parent));
  if (first_ticks.own) first_ticks.parent = first_ticks.own;
  first_ticks.own = NULL;
  first_ticks.wanted = 0;
  first_ticks.samples = first_ticks.weight = first_ticks.truncated = 0;
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
  const uint64_t tick_ns = (uint64_t)tick.nanoseconds, met_ns = onstack_load_relaxed(&first_ticks.parent->met_ns);
  const uint64_t now_ns = onstack_monotonic_ns();
  const uint64_t since_ns = met_ns > 0 && now_ns > met_ns ? (now_ns - met_ns) % tick_ns : first_ticks_random(tick_ns);
  return since_ns > used_ns ? since_ns - used_ns : 0;
}

static bool first_ticks_arm(void) {
  const int32_t clock = CLOCK_PROCESS_CPUTIME_ID;
  const uint64_t period_ns = first_ticks.walk.period_ns, used_ns = onstack_clock_ns(clock);
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

static ONSTACK_HANDLER bool first_ticks_is_open(const first_ticks_shared *shared, uint64_t now_ns) {
  const uint64_t seen_ns = onstack_load_relaxed(&shared->seen_ns);
  return onstack_observe(&shared->open) && (now_ns < seen_ns || now_ns - seen_ns < FIRST_TICKS_SILENT_NS);
}

bool onstack_first_ticks_begin(void (*enough)(void)) {
  if (!first_ticks.parent || !first_ticks_is_open(first_ticks.parent, onstack_monotonic_ns())) return false;
  if (onstack_load_relaxed(first_ticks.walk.room) > first_ticks.walk.least) return false;
  first_ticks.enough = enough;
  first_ticks.birth = onstack_add_relaxed(&first_ticks.parent->births, 1u) + 1;
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

/* FIRST_TICKS_ENTRIES: there is none. */
static ONSTACK_HANDLER uint32_t first_ticks_claim(first_ticks_shared *shared) {
  for (uint32_t i = 0; i < FIRST_TICKS_ENTRIES; i++) {
    uint32_t expected = onstack_load_relaxed(&shared->states[i]);
    if (expected == FIRST_TICKS_FREE && onstack_cas(&shared->states[i], &expected, (uint32_t)FIRST_TICKS_CLAIMED)) return i;
  }
  return FIRST_TICKS_ENTRIES;
}

/* What other threads of the process may make of tables meanwhile waits for us, as for a traceback on demand. */
static ONSTACK_HANDLER void first_ticks_walk(first_ticks_entry *entry, const onstack_registers *registers,
                                             ucontext_t *context) {
  onstack_memory memory;
  onstack_traceback_enter();
  onstack_walk_prepare(&memory, first_ticks.walk.reader, first_ticks.walk.copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  const onstack_walk walk = {registers, context, &memory, NULL, entry->frames, FIRST_TICKS_DEPTH, entry->unwound_by};
  const onstack_walk_result result = onstack_walk_run(first_ticks.walk.unwinder, &walk);
  onstack_traceback_leave();
  entry->count = (uint16_t)result.frame_count;
  entry->truncation = (uint16_t)result.truncation;
}

/* Code that was not there when the process began is another's in the process that collects. */
static ONSTACK_HANDLER bool first_ticks_knows(const first_ticks_entry *entry) {
  onstack_module module = {.low = 0};
  for (uint32_t i = 0; i < entry->count; i++) {
    const uint64_t address = entry->frames[i] - (i > 0);
    if (first_ticks_is_vdso(address)) continue; /* it lies where it lay */
    if (onstack_modules_find(address, &module) != ONSTACK_MODULE_HERE) return false;
  }
  return entry->count > 0;
}

/* False: there is no room, or no stack that the process that collects could name. */
static ONSTACK_HANDLER bool first_ticks_record(first_ticks_shared *shared, uint32_t weight, uint64_t now_ns,
                                               ucontext_t *context) {
  const bool room = onstack_has_room(context, first_ticks.walk.stack_bytes);
  const uint32_t claimed = room ? first_ticks_claim(shared) : FIRST_TICKS_ENTRIES;
  if (claimed == FIRST_TICKS_ENTRIES) return false;
  onstack_registers registers;
  first_ticks_entry *entry = &shared->entries[claimed];
  entry->weight = weight;
  entry->birth = first_ticks.birth;
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
  entry->kept = keeps ? onstack_keep(shared->stacks, &registers) : 0;
  onstack_publish(&shared->states[claimed], (uint32_t)(known ? FIRST_TICKS_FILLED : FIRST_TICKS_FREE));
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
  const uint64_t period_ns = first_ticks.walk.period_ns, most = first_ticks.walk.weight_max;
  const uint64_t used_ns = first_ticks_used();
  first_ticks_shared *shared = first_ticks.parent;
  uint64_t now_ns = 0, ticks = first_ticks_due(used_ns, period_ns);
  onstack_timer_read_clock(CLOCK_MONOTONIC, &now_ns);
  onstack_store_relaxed(&shared->met_ns, now_ns);
  if (onstack_load_relaxed(&first_ticks.over)) return; /* the session counts what was used until it begins; */
  if (!first_ticks_is_open(shared, now_ns)) {          /* and this tick, which nobody would collect */
    first_ticks_be_over();
    return;
  }
  if (ticks == 0) return;
  const bool last = (first_ticks.told + ticks) * period_ns >= FIRST_TICKS_NS;
  const uint64_t taken_ns = first_ticks.taken_ns, counted = last ? first_ticks_last(ticks, used_ns, period_ns) : ticks;
  const uint64_t weight = counted < most ? counted : most;
  first_ticks.told += ticks;
  if (!last) first_ticks.taken_ns = first_ticks.told * period_ns;
  if (weight > 0 && !first_ticks_record(shared, (uint32_t)weight, now_ns, context)) {
    first_ticks.taken_ns = taken_ns; /* the session counts them */
    first_ticks_be_over();
    return;
  }
  if (counted > weight) onstack_add_relaxed(&shared->lost, counted - weight);
  if (last) first_ticks_be_over();
}

ONSTACK_HANDLER bool onstack_first_ticks_take(const siginfo_t *info, void *context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (void *)&first_ticks) return false;
  if (onstack_observe(&first_ticks.armed)) first_ticks_tick(context);
  return true;
}
