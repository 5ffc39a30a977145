/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/first_ticks.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/modules/modules.h"
#include "platform/context.h"
#include "sampler/session/record.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STORE_DEPTH 100u
#define STORE_ENTRIES 1024u         /* 1 MiB of addresses, of which used pages become memory */
#define STORE_VDSO 16384u           /* bytes that it takes at most */
#define STORE_SILENT_NS 3000000000u /* a keeper looks each half second */
#define STORE_CREDIT_NS 3000000000u /* for each processor */
#define STORE_TRIES 100u            /* to read the map while it is written, */
#define STORE_AGAIN_NS 100000u      /* and so long between two */

#define STORE_MINE 32u            /* ticks of 20 ms: the kernel's are a millisecond apart at least */
#define STORE_YOUNG_NS 500000000u /* by then a child that works all the time has its session */

enum { STORE_FREE, STORE_CLAIMED, STORE_FILLED };

typedef struct store_tick {
  uint32_t weight;
  int32_t tid;
  uint64_t time_ns;
  uint64_t name[2];
} store_tick;

/* Addresses only: other users can read them. */
typedef struct store_entry {
  store_tick tick;
  uint32_t map; /* the sequence of the child's map of modules, before the walk (sampler/unwind/rules.h) */
  uint16_t count;
  uint16_t truncation;
  uint64_t frames[STORE_DEPTH];
  uint8_t unwound_by[STORE_DEPTH];
} store_entry;

typedef struct store_shared {
  uint32_t open;    /* the parent collects, */
  uint64_t seen_ns; /* and did so last (CLOCK_MONOTONIC): if it was killed, it has not closed this */
  /* A child that is killed between claim and fill leaves its entry claimed: one of many. Apart from the entries, of which so
     many become memory as are in use at a time. */
  uint32_t states[STORE_ENTRIES];
  store_entry entries[STORE_ENTRIES];
} store_shared;

/* What this process has put there, to be taken back. */
typedef struct store_copy {
  uint32_t number; /* of the entry */
  uint32_t kept;   /* its stack's number in `stacks`, if a rule was missing; 0: none */
  store_entry entry;
} store_copy;

/* Memory of this process alone. Entry i is the tick whose stack is stacks[i]. */
typedef struct store_alone {
  store_tick ticks[ONSTACK_KEPT_STACKS];
  onstack_kept stacks[ONSTACK_KEPT_STACKS];
} store_alone;

/* Of one process each; the child of a fork has a copy. */
static struct {
  onstack_session_walk walk; /* of the session that is, or of the parent's; written before `open` */
  uint64_t vdso;             /* its address */
  uint32_t wanted;           /* a session is on: its children share with it */
  store_shared *own;         /* this process collects from it; NULL if it has not forked yet */
  uint64_t opened_ns;
  uint64_t counted_ns; /* when credit_ns was counted last */
  uint64_t credit_ns;  /* CPU time that children can have used and that no tick stands for yet */
  uint64_t processors;
  store_shared *parents; /* this process's ticks go there, or */
  store_alone *alone;    /* there; NULL both: nowhere */
  uint32_t held;         /* ticks that are in `alone` */
  onstack_loader_counts loaded;
  uint64_t samples, weight; /* that are in this process's profile */
  uint64_t truncated;       /* of the samples */
  uint64_t lost;            /* ticks that are not */
  uint32_t mine_count;
  store_copy mine[STORE_MINE];
  onstack_kept *stacks; /* memory of this process alone; NULL: none */
} store;

ONSTACK_HANDLER const onstack_session_walk *onstack_first_ticks_walk(void) { return &store.walk; }

ONSTACK_HANDLER bool onstack_first_ticks_are_taken(uint64_t now_ns) {
  const store_shared *parents = store.parents;
  if (onstack_observe(&store.alone)) return true;
  if (!parents || !onstack_observe(&parents->open)) return false;
  const uint64_t seen_ns = onstack_load_relaxed(&parents->seen_ns);
  return now_ns < seen_ns || now_ns - seen_ns < STORE_SILENT_NS;
}

static ONSTACK_HANDLER bool store_is_vdso(uint64_t address) { return address - store.vdso < STORE_VDSO; }

/* STORE_ENTRIES: there is none. */
static ONSTACK_HANDLER uint32_t store_claim(store_shared *shared) {
  for (uint32_t i = 0; i < STORE_ENTRIES; i++) {
    uint32_t expected = STORE_FREE;
    if (onstack_load_relaxed(&shared->states[i]) == STORE_FREE &&
        onstack_cas(&shared->states[i], &expected, (uint32_t)STORE_CLAIMED))
      return i;
  }
  return STORE_ENTRIES;
}

/* While it walks, other threads of the process keep retired tables, as for a traceback on demand. */
static ONSTACK_HANDLER void store_walk(store_entry *entry, const onstack_registers *registers, ucontext_t *context) {
  onstack_memory memory;
  entry->map = onstack_seqlock_begin(&onstack_modules.lock) & ~1u; /* if it is odd: the map before */
  onstack_traceback_enter();
  onstack_walk_prepare(&memory, store.walk.reader, store.walk.copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  const onstack_walk walk = {registers, context, &memory, NULL, entry->frames, STORE_DEPTH, entry->unwound_by};
  const onstack_walk_result result = onstack_walk_run(store.walk.unwinder, &walk);
  onstack_traceback_leave();
  entry->count = (uint16_t)result.frame_count;
  entry->truncation = (uint16_t)result.truncation;
}

/* Code that was loaded after the process began is at the address of other code in the parent. */
static ONSTACK_HANDLER bool store_knows(const store_entry *entry) {
  onstack_module module = {.low = 0};
  for (uint32_t i = 0; i < entry->count; i++) {
    const uint64_t address = entry->frames[i] - (i > 0);
    if (!store_is_vdso(address) && onstack_modules_find(address, &module) != ONSTACK_MODULE_HERE) return false;
  }
  return entry->count > 0;
}

static ONSTACK_HANDLER bool store_put_shared(store_shared *shared, const store_tick *tick,
                                             const onstack_registers *registers, ucontext_t *context) {
  const uint32_t count = store.mine_count;
  if (count == STORE_MINE) return false;
  /* Not where others read: what is walked may be no address of code. */
  store_entry *walked = &store.mine[count].entry;
  walked->tick = *tick;
  store_walk(walked, registers, context);
  const uint32_t claimed = store_knows(walked) ? store_claim(shared) : STORE_ENTRIES;
  if (claimed == STORE_ENTRIES) return false;
  store_entry *entry = &shared->entries[claimed];
  entry->tick = *tick;
  entry->map = walked->map;
  entry->count = walked->count;
  entry->truncation = walked->truncation;
  for (uint32_t i = 0; i < walked->count; i++) {
    onstack_store_relaxed(&entry->frames[i], walked->frames[i]);
    onstack_store_relaxed(&entry->unwound_by[i], walked->unwound_by[i]);
  }
  onstack_publish(&shared->states[claimed], (uint32_t)STORE_FILLED);
  store.mine[count].number = claimed;
  store.mine[count].kept = walked->truncation == ONSTACK_TRUNCATED_PENDING ? onstack_keep(store.stacks, registers) : 0;
  onstack_publish(&store.mine_count, count + 1);
  return true;
}

/* Nothing is known of the process yet, not even what is loaded: all of the walk is done later. */
static ONSTACK_HANDLER bool store_put_alone(store_alone *alone, const store_tick *tick, const onstack_registers *registers) {
  const uint32_t kept = onstack_keep(alone->stacks, registers);
  if (kept == 0) return false;
  alone->ticks[kept - 1] = *tick;
  onstack_publish(&store.held, kept); /* none is given back, so they are taken in order */
  return true;
}

ONSTACK_HANDLER bool onstack_first_ticks_put(uint32_t weight, uint64_t now_ns, ucontext_t *context) {
  store_alone *alone = onstack_observe(&store.alone);
  store_tick tick = {weight, onstack_sys_gettid(), now_ns, {0, 0}};
  onstack_registers registers;
  if (!onstack_has_room(context, store.walk.stack_bytes)) return false;
  onstack_sys_call2(SYS_prctl, PR_GET_NAME, (long)tick.name); /* writes at most 16 bytes */
  onstack_registers_from(&registers, context);
  if (alone) return store_put_alone(alone, &tick, &registers);
  return store.parents && store_put_shared(store.parents, &tick, &registers, context);
}

/* Whether a module of this process contains the address, and did so when the map had this sequence. */
static bool store_holds(uint64_t address, uint32_t map) {
  onstack_module module = {.low = 0};
  for (uint32_t i = 0; i < STORE_TRIES; i++) {
    switch (onstack_modules_find(address, &module)) {
    case ONSTACK_MODULE_HERE:
      return (int32_t)(module.since - map) <= 0;
    case ONSTACK_MODULE_NONE:
      return false;
    default:
      onstack_sys_sleep(STORE_AGAIN_NS); /* another thread is writing it */
    }
  }
  return false;
}

/* Cuts a stack at code that is not here what it was there: a library that was closed since may have another at its place. */
static void store_cut_unknown(onstack_walked *stack, uint32_t map) {
  uint32_t known = 0;
  while (known < stack->count) {
    const uint64_t address = stack->frames[known] - (known > 0);
    if (!store_is_vdso(address) && !store_holds(address, map)) break;
    known++;
  }
  if (known < stack->count) stack->truncation = ONSTACK_TRUNCATED_PENDING;
  stack->count = known;
}

/* Returns whether the profile has it. */
static bool store_give(onstack_profile *profile, const store_tick *tick, onstack_walked *stack) {
  char name[sizeof(tick->name) + 1] = {0};
  onstack_walk_result result = {stack->count, stack->truncation};
  if (stack->count == 0) return false;
  onstack_walk_check(store.walk.copy_works, stack->frames, stack->unwound_by, &result);
  memcpy(name, tick->name, sizeof(tick->name));
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_CPU,
                                 .time_ns = tick->time_ns,
                                 .value = tick->weight * store.walk.period_ns,
                                 .period = store.walk.period_ns,
                                 .unit = ONSTACK_UNIT_NANOSECONDS,
                                 .weight = tick->weight,
                                 .tid = tick->tid,
                                 .truncation = result.truncation,
                                 .thread_name = name,
                                 .frames = stack->frames,
                                 .frame_count = result.frame_count};
  if (onstack_profile_sink(profile, &sample) != 0) return false;
  store.truncated += result.truncation != ONSTACK_TRUNCATED_NOT;
  store.weight += tick->weight;
  store.samples++;
  return true;
}

/* What all processors have had since the last look, so much at most that a child cannot claim the idle time of a day. */
static void store_count_credit(uint64_t now_ns) {
  const uint64_t most_ns = STORE_CREDIT_NS * store.processors;
  store.credit_ns += (now_ns - store.counted_ns) * store.processors;
  if (store.credit_ns > most_ns) store.credit_ns = most_ns;
  store.counted_ns = now_ns;
}

/* `entry` is a copy. Returns false if no child of this process can have written it. */
static bool store_is_plausible(store_entry *entry, uint64_t now_ns) {
  const uint64_t used_ns = entry->tick.weight * store.walk.period_ns;
  if (entry->count == 0 || entry->count > STORE_DEPTH || entry->truncation >= ONSTACK_TRUNCATION_COUNT) return false;
  if (entry->tick.weight == 0 || used_ns > store.credit_ns) return false;
  store.credit_ns -= used_ns;
  if (entry->tick.time_ns - store.opened_ns > now_ns - store.opened_ns) entry->tick.time_ns = now_ns;
  return true;
}

static bool store_take(store_entry *entry, onstack_kept *kept, onstack_session *session, onstack_profile *profile) {
  onstack_walked stack = {entry->frames, entry->unwound_by, entry->count, entry->truncation, false};
  if (kept) onstack_session_walk_again(session, kept, &stack);
  store_cut_unknown(&stack, entry->map);
  /* Derives the rule that was missing, for the children to come. */
  if (!kept && session && stack.count > 0) onstack_session_walk_again(session, NULL, &stack);
  const bool given = store_give(profile, &entry->tick, &stack);
  if (!given) store.lost += entry->tick.weight;
  return given;
}

/* The child and its parent may both want it. */
static bool store_begins_to_take(store_shared *shared, uint32_t number) {
  uint32_t expected = STORE_FILLED;
  return onstack_observe(&shared->states[number]) == STORE_FILLED &&
         onstack_cas(&shared->states[number], &expected, (uint32_t)STORE_CLAIMED);
}

static bool store_collect(store_shared *own, uint32_t number, onstack_session *session, onstack_profile *profile,
                          uint64_t now_ns) {
  store_entry entry;
  if (!store_begins_to_take(own, number)) return false;
  memcpy(&entry, &own->entries[number], sizeof(entry));
  onstack_fence_signal(); /* the compiler does not read it again */
  const bool plausible = store_is_plausible(&entry, now_ns), given = plausible && store_take(&entry, NULL, session, profile);
  if (!plausible) store.lost++; /* its weight means nothing */
  onstack_publish(&own->states[number], (uint32_t)STORE_FREE);
  return given;
}

uint32_t onstack_first_ticks_collect(onstack_session *session, onstack_profile *profile, bool all) {
  store_shared *own = onstack_observe(&store.own);
  uint32_t given = 0;
  if (!own) return 0;
  const uint64_t now_ns = onstack_monotonic_ns();
  onstack_store_relaxed(&own->seen_ns, now_ns);
  store_count_credit(now_ns);
  onstack_modules_refresh(0); /* what has been loaded and closed until now */
  for (uint32_t i = 0; i < STORE_ENTRIES; i++) {
    if (all || now_ns - onstack_load_relaxed(&own->entries[i].tick.time_ns) >= STORE_YOUNG_NS)
      given += store_collect(own, i, session, profile, now_ns);
  }
  return given;
}

/* By the copies, which no sibling can write. If the parent has taken an entry, another child's may be there. */
static void store_take_mine(onstack_session *session, onstack_profile *profile, bool left) {
  store_shared *parents = store.parents;
  onstack_modules_refresh(0);
  for (uint32_t i = 0; i < onstack_observe(&store.mine_count); i++) {
    store_copy *mine = &store.mine[i];
    const store_tick *there = &parents->entries[mine->number].tick;
    if (!store_begins_to_take(parents, mine->number)) continue;
    const bool is_mine = there->tid == mine->entry.tick.tid && there->time_ns == mine->entry.tick.time_ns;
    if (is_mine) store_take(&mine->entry, mine->kept ? &store.stacks[mine->kept - 1] : NULL, session, profile);
    onstack_publish(&parents->states[mine->number], (uint32_t)(is_mine ? STORE_FREE : STORE_FILLED));
  }
  store.mine_count = 0;
  if (left && store.stacks) munmap(store.stacks, ONSTACK_KEPT_STACKS * sizeof(*store.stacks));
  store.stacks = NULL;
}

static void store_take_alone(onstack_session *session, onstack_profile *profile, bool left) {
  store_alone *alone = store.alone;
  onstack_loader_counts now = {0, 0};
  /* If nothing has been closed since, all that was loaded then is where it was. */
  const bool same = onstack_loader_count(&now) && now.subs == store.loaded.subs;
  for (uint32_t i = 0; i < onstack_observe(&store.held); i++) {
    store_tick *tick = &alone->ticks[i];
    uint8_t by = 0;
    onstack_walked stack = {&alone->stacks[i].registers.pc, &by, 1, ONSTACK_TRUNCATED_PENDING, false};
    onstack_session_walk_again(session, &alone->stacks[i], &stack);
    if (!same || !store_give(profile, tick, &stack)) store.lost += tick->weight;
  }
  store.held = 0;
  onstack_publish(&store.alone, (store_alone *)NULL);
  if (left) munmap(alone, sizeof(*alone)); /* else a thread was stopped in its handler */
}

void onstack_first_ticks_take_back(onstack_session *session, onstack_profile *profile) {
  if (!store.alone && !store.parents) return;
  const bool left = onstack_first_ticks_await_handler();
  if (store.parents) store_take_mine(session, profile, left);
  if (store.alone) store_take_alone(session, profile, left);
}

void onstack_first_ticks_give_up(void) {
  if ((!store.alone && !store.stacks) || !onstack_first_ticks_await_handler()) return;
  store_alone *alone = store.alone;
  store.held = store.mine_count = 0;
  onstack_publish(&store.alone, (store_alone *)NULL);
  if (alone) munmap(alone, sizeof(*alone));
  if (store.stacks) munmap(store.stacks, ONSTACK_KEPT_STACKS * sizeof(*store.stacks));
  store.stacks = NULL;
}

void onstack_first_ticks_open(const onstack_session *session) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  store.opened_ns = onstack_monotonic_ns();
  store.processors = processors > 0 ? (uint64_t)processors : 1;
  store.walk = onstack_session_walk_of(session);
  store.vdso = getauxval(AT_SYSINFO_EHDR);
  if (store.own) onstack_store_relaxed(&store.own->seen_ns, onstack_monotonic_ns());
  if (store.own) onstack_publish(&store.own->open, 1u);
  onstack_publish(&store.wanted, 1u);
}

void onstack_first_ticks_close(void) {
  store_shared *own = onstack_observe(&store.own);
  onstack_publish(&store.wanted, 0u);
  if (own) onstack_publish(&own->open, 0u);
}

static void *store_map(size_t bytes, int sharing) {
  void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return made == MAP_FAILED ? NULL : made;
}

void onstack_first_ticks_prepare(void) {
  if (!store.alone && !store.stacks) store.stacks = store_map(ONSTACK_KEPT_STACKS * sizeof(*store.stacks), MAP_PRIVATE);
}

bool onstack_first_ticks_alone(const onstack_options *options) {
  if (onstack_session_walk_expected(options, &store.walk) < 0 || !onstack_loader_count(&store.loaded)) return false;
  store.alone = store_map(sizeof(*store.alone), MAP_PRIVATE);
  return store.alone;
}

bool onstack_first_ticks_are_alone(void) { return onstack_observe(&store.alone); }

bool onstack_first_ticks_are_held(void) { return onstack_load_relaxed(&store.held) > 0; }

onstack_statistics_more onstack_first_ticks_count(void) {
  return (onstack_statistics_more){
      .unattributed = store.lost, .samples = store.samples, .weight = store.weight, .truncated = store.truncated};
}

int onstack_first_ticks_tell(int (*write)(void *data, const void *bytes, size_t length), void *data) {
  char text[200];
  const int length =
      snprintf(text, sizeof(text),
               "onstack.first_ticks samples=%" PRIu64 " weight=%" PRIu64 " dropped=%" PRIu64 " truncated=%" PRIu64 "\n",
               store.samples, store.weight, store.lost, store.truncated);
  return store.samples + store.lost > 0 ? write(data, text, (size_t)length) : 0;
}

void onstack_first_ticks_store_before_fork(void) {
  store_shared *none = NULL;
  if (!onstack_observe(&store.wanted) || onstack_load_relaxed(&store.own)) return;
  store_shared *made = store_map(sizeof(*made), MAP_SHARED);
  if (!made) return; /* children begin with a session */
  made->seen_ns = onstack_monotonic_ns();
  made->open = 1;
  if (!onstack_cas(&store.own, &none, made)) munmap(made, sizeof(*made)); /* another thread forks as well */
}

/* If its parent collects, the child's ticks go there, and nothing uses where the parent's went, unless a handler forked that
   has interrupted a walk. */
static void store_follow_parent(void) {
  const bool unused = !onstack_traceback_is_busy();
  if (unused && store.parents) onstack_sys_call2(SYS_munmap, (long)store.parents, sizeof(*store.parents));
  if (unused && store.alone) onstack_sys_call2(SYS_munmap, (long)store.alone, sizeof(*store.alone));
  store.parents = store.own;
  store.alone = NULL;
  store.own = NULL;
}

void onstack_first_ticks_store_forked(void) {
  if (store.stacks) onstack_sys_call2(SYS_munmap, (long)store.stacks, ONSTACK_KEPT_STACKS * sizeof(*store.stacks));
  store.stacks = NULL;
  if (store.own) store_follow_parent();
  store.wanted = store.held = store.mine_count = 0;
  store.credit_ns = store.counted_ns = 0;
  store.samples = store.weight = store.truncated = store.lost = 0;
  /* What is there is the parent's, which takes it itself. */
  if (store.alone) onstack_sys_call3(SYS_madvise, (long)store.alone, sizeof(*store.alone), MADV_DONTNEED);
}
