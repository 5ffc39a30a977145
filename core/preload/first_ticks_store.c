/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/first_ticks_store.h"

#include "base/clock_ns.h"
#include "base/sys.h"
#include "control/unwind/modules.h"
#include "handler/unwind/rules/rules.h"
#include "handler/unwind/traceback_walk.h"
#include "handler/unwind/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define FIRST_TICKS_TRIES 100u       /* to read the map while it is written, */
#define FIRST_TICKS_AGAIN_NS 100000u /* and so long between two */
#define FIRST_TICKS_HANDLER_TRIES 10000u
#define FIRST_TICKS_KEPT_NS 100000000u /* by then a child that works all the time has its session */

ONSTACK_INTERNAL_DEFINE onstack_first_ticks_here onstack_first_ticks;

/* Who takes them. */
typedef struct first_ticks_taker {
  onstack_session *session;
  onstack_profile *profile;
  bool alone; /* from memory that nobody shares */
} first_ticks_taker;

void onstack_first_ticks_open(const onstack_session *session) {
  onstack_first_ticks.walk = onstack_session_walk_of(session);
  onstack_first_ticks.vdso = getauxval(AT_SYSINFO_EHDR);
  if (onstack_first_ticks.own) onstack_store_relaxed(&onstack_first_ticks.own->seen_ns, onstack_monotonic_ns());
  if (onstack_first_ticks.own) onstack_publish(&onstack_first_ticks.own->open, 1u);
  onstack_publish(&onstack_first_ticks.wanted, 1u);
}

void onstack_first_ticks_close(void) {
  onstack_first_ticks_store *own = onstack_observe(&onstack_first_ticks.own);
  onstack_publish(&onstack_first_ticks.wanted, 0u);
  if (own) onstack_publish(&own->open, 0u);
}

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

/* Where nothing has been closed since, all that was loaded then lies where it lay. */
static bool first_ticks_none_closed(void) {
  onstack_loader_counts now = {0, 0};
  return onstack_loader_count(&now) && now.subs == onstack_first_ticks.loaded.subs;
}

/* The frames whose code is here what it was there. A library that was closed since may have another at its place, and what was
   walked on here may lead into code that only one of the two has. */
static uint32_t first_ticks_believed(const onstack_walked *stack, uint32_t map, bool alone) {
  if (alone) return first_ticks_none_closed() ? stack->count : 0;
  for (uint32_t i = 0; i < stack->count; i++) {
    const uint64_t address = stack->frames[i] - (i > 0);
    if (!onstack_first_ticks_is_vdso(address) && !first_ticks_held(address, map)) return i;
  }
  return stack->count;
}

/* Finds the rest of a stack, and cuts what is not to be believed. False: nothing of it is. */
static bool first_ticks_complete(const first_ticks_taker *to, const onstack_first_ticks_entry *entry, onstack_kept *kept,
                                 onstack_walked *stack) {
  if (to->session) onstack_session_walk_again(to->session, kept, stack);
  onstack_walk_result result = {stack->count, stack->truncation};
  onstack_walk_check(onstack_first_ticks.walk.copy_works, stack->frames, stack->unwound_by, &result);
  stack->count = result.frame_count;
  stack->truncation = result.truncation;
  const uint32_t believed = first_ticks_believed(stack, entry->map, to->alone);
  if (believed < stack->count) stack->truncation = ONSTACK_TRUNCATED_PENDING;
  stack->count = believed;
  return believed > 0;
}

static bool first_ticks_give(const first_ticks_taker *to, onstack_first_ticks_entry *entry, onstack_kept *kept) {
  char name[sizeof(entry->name) + 1] = {0};
  onstack_walked stack = {entry->frames, entry->unwound_by, onstack_load_relaxed(&entry->count),
                          onstack_load_relaxed(&entry->truncation), false};
  if (stack.count == 0 || stack.count > ONSTACK_FIRST_TICKS_DEPTH || stack.truncation >= ONSTACK_TRUNCATION_COUNT)
    return false;
  if (!first_ticks_complete(to, entry, kept, &stack)) return false;
  memcpy(name, entry->name, sizeof(entry->name));
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_CPU,
                                 .time_ns = entry->time_ns,
                                 .value = entry->weight * onstack_first_ticks.walk.period_ns,
                                 .period = onstack_first_ticks.walk.period_ns,
                                 .unit = ONSTACK_UNIT_NANOSECONDS,
                                 .weight = entry->weight,
                                 .tid = entry->tid,
                                 .truncation = stack.truncation,
                                 .thread_name = name,
                                 .frames = stack.frames,
                                 .frame_count = stack.count};
  onstack_first_ticks.truncated += stack.truncation != ONSTACK_TRUNCATED_NOT;
  return onstack_profile_sink(to->profile, &sample) == 0;
}

static onstack_kept *first_ticks_kept(onstack_first_ticks_store *store, const onstack_first_ticks_entry *entry) {
  const uint32_t number = onstack_load_relaxed(&entry->kept);
  return number - 1 < ONSTACK_KEPT_STACKS ? &store->stacks[number - 1] : NULL;
}

/* Gives those of child `birth` (0: of any) that came before `before_ns` to the profile; returns how many it took. */
static uint32_t first_ticks_move(onstack_first_ticks_store *store, const first_ticks_taker *to, uint32_t birth,
                                 uint64_t before_ns) {
  uint32_t given = 0;
  onstack_modules_refresh(0); /* what has been loaded and closed until now */
  for (uint32_t i = 0; i < ONSTACK_FIRST_TICKS_ENTRIES; i++) {
    onstack_first_ticks_entry *entry = &store->entries[i];
    uint32_t expected = ONSTACK_FIRST_TICKS_FILLED;
    if (onstack_observe(&store->states[i]) != ONSTACK_FIRST_TICKS_FILLED) continue;
    if ((birth != 0 && entry->birth != birth) || entry->time_ns >= before_ns) continue;
    /* The child and its parent may both want it. */
    if (!onstack_cas(&store->states[i], &expected, (uint32_t)ONSTACK_FIRST_TICKS_CLAIMED)) continue;
    if (birth != 0 && entry->birth != birth) { /* the parent had it meanwhile, and another child has filled it again */
      onstack_publish(&store->states[i], (uint32_t)ONSTACK_FIRST_TICKS_FILLED);
      continue;
    }
    onstack_kept *kept = first_ticks_kept(store, entry);
    if (first_ticks_give(to, entry, kept)) {
      onstack_first_ticks.weight += entry->weight;
      given++;
    } else {
      onstack_add_relaxed(&store->lost, (uint64_t)entry->weight);
    }
    if (kept && !to->alone) onstack_session_release(store->stacks, kept);
    onstack_publish(&store->states[i], (uint32_t)ONSTACK_FIRST_TICKS_FREE);
  }
  onstack_first_ticks.samples += given;
  return given;
}

uint32_t onstack_first_ticks_collect(onstack_session *session, onstack_profile *profile, bool all) {
  onstack_first_ticks_store *own = onstack_observe(&onstack_first_ticks.own);
  if (!own) return 0;
  const uint64_t now_ns = onstack_monotonic_ns();
  onstack_store_relaxed(&own->seen_ns, now_ns);
  return first_ticks_move(own, &(first_ticks_taker){session, profile, false}, 0,
                          all ? UINT64_MAX : now_ns - FIRST_TICKS_KEPT_NS);
}

/* A handler that comes now finds that the ticks have ended (first_ticks.c). One that is inside may be where its thread has
   lost the processor; one that stays there, of a thread that is stopped, keeps its memory. */
static bool first_ticks_await_handler(void) {
  for (uint32_t i = 0; i < FIRST_TICKS_HANDLER_TRIES; i++) {
    if (onstack_dekker_load(&onstack_first_ticks.inside) == 0) return true;
    onstack_sys_sleep(FIRST_TICKS_AGAIN_NS);
  }
  return false;
}

void onstack_first_ticks_take_back(onstack_session *session, onstack_profile *profile) {
  onstack_first_ticks_here *here = &onstack_first_ticks;
  onstack_first_ticks_store *into = here->into;
  if (!into) return;
  const bool alone = here->alone, left = alone && first_ticks_await_handler();
  first_ticks_move(into, &(first_ticks_taker){session, profile, alone}, here->birth, UINT64_MAX);
  if (!left) return;
  here->lost += onstack_load_relaxed(&into->lost);
  here->held = 0;
  onstack_publish(&here->alone, false); /* first: a child of a fork that comes now has no store and is not alone */
  onstack_publish(&here->into, (onstack_first_ticks_store *)NULL);
  munmap(into, sizeof(*into));
}

static void first_ticks_open_alone(onstack_first_ticks_store *store) {
  store->seen_ns = UINT64_MAX; /* nobody looks at it, and it is open all the same */
  store->open = 1;
  onstack_first_ticks.held = 0;
}

bool onstack_first_ticks_alone(const onstack_options *options) {
  onstack_first_ticks_here *here = &onstack_first_ticks;
  if (onstack_session_walk_expected(options, &here->walk) < 0 || !onstack_loader_count(&here->loaded)) return false;
  void *made = mmap(NULL, sizeof(*here->into), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return false;
  here->into = made;
  here->alone = true;
  first_ticks_open_alone(here->into);
  return true;
}

bool onstack_first_ticks_are_alone(void) { return onstack_first_ticks.alone; }

bool onstack_first_ticks_are_held(void) { return onstack_load_relaxed(&onstack_first_ticks.held) > 0; }

onstack_statistics_more onstack_first_ticks_count(void) {
  const onstack_first_ticks_here *here = &onstack_first_ticks;
  const onstack_first_ticks_store *own = onstack_observe(&here->own);
  return (onstack_statistics_more){.unattributed = here->lost + (own ? onstack_load_relaxed(&own->lost) : 0),
                                   .samples = here->samples,
                                   .weight = here->weight,
                                   .truncated = here->truncated};
}

int onstack_first_ticks_tell(int (*write)(void *data, const void *bytes, size_t length), void *data) {
  char text[200];
  const onstack_statistics_more counted = onstack_first_ticks_count();
  const int length =
      snprintf(text, sizeof(text),
               "onstack.first_ticks samples=%" PRIu64 " weight=%" PRIu64 " dropped=%" PRIu64 " truncated=%" PRIu64 "\n",
               counted.samples, counted.weight, counted.unattributed, counted.truncated);
  return counted.samples + counted.unattributed > 0 ? write(data, text, (size_t)length) : 0;
}

void onstack_first_ticks_store_before_fork(void) {
  onstack_first_ticks_store *none = NULL;
  if (!onstack_observe(&onstack_first_ticks.wanted) || onstack_load_relaxed(&onstack_first_ticks.own)) return;
  void *made = mmap(NULL, sizeof(*none), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return; /* children begin with a session */
  ((onstack_first_ticks_store *)made)->seen_ns = onstack_monotonic_ns();
  ((onstack_first_ticks_store *)made)->open = 1;
  if (!onstack_cas(&onstack_first_ticks.own, &none, made)) munmap(made, sizeof(*none)); /* another thread forks as well */
}

/* What the parent has collected is its own. What its own parent collects is not used any more, unless a handler forked that has
   interrupted a walk. */
void onstack_first_ticks_store_forked(void) {
  onstack_first_ticks_here *here = &onstack_first_ticks;
  if (here->own && here->into && !onstack_traceback_is_busy())
    onstack_sys_call2(SYS_munmap, (long)here->into, sizeof(*here->into));
  if (here->own) {
    here->into = here->own;
    here->alone = false;
  }
  if (!here->into) here->alone = false;
  here->own = NULL;
  here->wanted = here->held = here->inside = 0;
  here->samples = here->weight = here->truncated = here->lost = 0;
  if (!here->alone) return;
  /* What lies there is the parent's, which takes it itself; so does the child. */
  onstack_sys_call3(SYS_madvise, (long)here->into, sizeof(*here->into), MADV_DONTNEED);
  first_ticks_open_alone(here->into);
}
