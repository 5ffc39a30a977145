/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Real time without a signal to anybody who waits. On the processor a thread has ticks of its CPU time, as by the source `cpu`.
 * Off it, a thread of ours looks at it from outside (look.h), once a period on average.
 *
 * How long a thread was blocked between two looks is no estimate: real time, less the time that it ran and the time that it
 * waited for a processor, and the kernel counts both. The looks decide what stack that time belongs to:
 *
 *   it has not run since the last look   it stands where it stood, and all of the time is that stack's; no walk is needed
 *   blocked then, blocked now            half is the old stack's, half the new one's
 *   blocked at one of the two            all is that one's
 *   at neither                           it waits for the next stack that a look finds; a thread that has kept its processor
 *                                        was not blocked
 *   it has ended since                   half is the last stack's
 *
 * The longer a thread has stood, the longer the pause until it is looked at again (WALL_STAND_SHARE): threads that wait for
 * minutes cost next to nothing, and when one of them goes on, half a pause at most is given to the wrong stack.
 *
 * Looks come at random moments, a half to one and a half periods apart, so that no habit of the program's is in step with them.
 * Time that belongs to one stack becomes one sample, when the stack changes or after a second or, with many threads, more. A
 * sample stands for a tick at least, that is a period: what is less waits for the thread's next stack, so that the ticks fall
 * as those of a timer on the blocked time would. The time that a thread waited for a processor goes to the stack of its next
 * tick, or to the one where it is blocked.
 */
#include "platform/process.h"
#include "sampler/threads/task.h"
#include "sampler/source/discovery.h"
#include "sampler/source/wall_account.h"
#include "sampler/source/arm.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#define WALL_FREQUENCY 20u
#define WALL_HELD_NS 1000000000u   /* time that may be held back for one stack: fewer samples, ... */
#define WALL_HELD_EACH_NS 4000000u /* and more of it for each thread, so that they are 250 a second at most */
#define WALL_SHARE 40u             /* the looks take one part in so many of a processor at most; then they come less often */
#define WALL_STAND_SHARE 32u      /* who has stood for long is looked at again after one part in so many of that time, ... */
#define WALL_STAND_NS 400000000u  /* and this at most */
#define WALL_UNKNOWN UINT64_MAX   /* of a thread's waits for a processor: the kernel has not told yet */
#define WALL_TRIES 3u             /* looks at a thread that runs meanwhile */
#define WALL_AGE_NS 10000000u     /* up to so much is a thread younger than the kernel says (USER_HZ) */
#define WALL_FOUND_NS 2000000000u /* within so much of its beginning a thread is found */
#define WALL_SCAN_SHARE 200u      /* the same for new threads */
#define WALL_LONGEST_NS ((uint64_t)900000000) /* the thread's pauses; it looks whether a round is due */
#define WALL_FULL_WAIT_NS 1000000000u         /* for a consumer that is slow at the end */

/* When a thread got its timer, and its CPU time then. */
typedef struct onstack_wall_armed {
  uint64_t ns, cpu_ns;
} onstack_wall_armed;

/* ---- looks ---- */

typedef enum wall_looked { WALL_LOOKED, WALL_AGAIN, WALL_GONE } wall_looked;

/* The clocks of a thread at a look, and what they say of the time since the last one. */
typedef struct wall_clocks {
  uint64_t now_ns, cpu_ns, runnable_ns, timeslices;
  uint64_t waited_ns, idle_ns;
  int64_t blocked_ns;
  bool told; /* of its waits; else they come with the next look */
} wall_clocks;

static void wall_read_waits(const onstack_wall_mark *mark, wall_clocks *clocks) {
  clocks->runnable_ns = mark->runnable_ns;
  clocks->timeslices = mark->timeslices;
  clocks->told = onstack_task_waited(mark->tid, &clocks->runnable_ns, &clocks->timeslices);
  const bool known = mark->runnable_ns != WALL_UNKNOWN && clocks->runnable_ns > mark->runnable_ns;
  const int64_t off_ns = (int64_t)(clocks->now_ns - mark->seen_ns - (clocks->cpu_ns - mark->cpu_ns)); /* on no processor */
  const int64_t most_ns = (int64_t)mark->idle_ns + off_ns; /* a wait may have begun before the first look */
  const int64_t counted_ns = known ? (int64_t)(clocks->runnable_ns - mark->runnable_ns) : 0;
  const int64_t waited_ns = counted_ns < most_ns ? counted_ns : most_ns > 0 ? most_ns : 0;
  clocks->waited_ns = (uint64_t)waited_ns;
  clocks->idle_ns = most_ns > waited_ns ? (uint64_t)(most_ns - waited_ns) : 0;
  clocks->blocked_ns = off_ns - waited_ns;
}

/* How it runs: where its CPU time goes on in the time slice of the last look it has never left its processor. */
static onstack_wall_slice wall_slice(const onstack_wall_mark *mark, const wall_clocks *clocks) {
  uint64_t later_ns, waited_ns, timeslices;
  if (!clocks->told || clocks->timeslices != mark->timeslices) return ONSTACK_SLICE_OTHER;
  if (!onstack_timer_read_clock(onstack_timer_cpu_clock(mark->tid), &later_ns) || later_ns == clocks->cpu_ns)
    return ONSTACK_SLICE_WAITS;
  return onstack_task_waited(mark->tid, &waited_ns, &timeslices) && timeslices == clocks->timeslices ? ONSTACK_SLICE_KEPT
                                                                                                     : ONSTACK_SLICE_WAITS;
}

static void wall_account(onstack_slot *slot, onstack_wall_state *state, uint32_t index, const wall_clocks *clocks,
                         onstack_look_status status) {
  onstack_wall_mark *mark = &state->marks[index];
  int64_t blocked_ns = clocks->blocked_ns;
  onstack_add_relaxed(&slot->runnable_ns[index], clocks->waited_ns);
  if (clocks->timeslices != mark->timeslices) { /* the kernel has counted its waits until then */
    blocked_ns += (int64_t)mark->doubtful_ns;
    mark->doubtful_ns = 0;
  }
  if (status == ONSTACK_LOOK_BLOCKED) {
    const onstack_wall_found found = {state->look, clocks->now_ns, blocked_ns, clocks->cpu_ns != mark->cpu_ns};
    onstack_wall_account_blocked(slot, mark, index, state->stacks + index * state->stride, &found);
  } else if (status == ONSTACK_LOOK_REFUSED) {
    onstack_add_relaxed(&state->refused, (uint64_t)1);
    mark->stands = false; /* nobody tells */
    onstack_wall_account_running(mark, blocked_ns, ONSTACK_SLICE_OTHER);
  } else {
    onstack_wall_account_running(mark, blocked_ns, wall_slice(mark, clocks));
  }
  mark->seen_ns = clocks->now_ns;
  mark->cpu_ns = clocks->cpu_ns;
  mark->runnable_ns = clocks->runnable_ns;
  mark->timeslices = clocks->timeslices;
  mark->idle_ns = clocks->idle_ns;
}

/* A look at a thread that has run since the last one. */
static wall_looked wall_look(onstack_slot *slot, onstack_wall_state *state, uint32_t index, uint64_t now_ns, uint64_t cpu_ns,
                             bool last) {
  onstack_wall_mark *mark = &state->marks[index];
  wall_clocks clocks = {.now_ns = now_ns, .cpu_ns = cpu_ns};
  wall_read_waits(mark, &clocks);
  const onstack_look_status status = onstack_look_at(slot, mark->tid, cpu_ns, mark->hints, state->look);
  onstack_add_relaxed(&state->looks, (uint64_t)1);
  mark->is_named = false;
  if (status == ONSTACK_LOOK_MOVED) onstack_add_relaxed(&state->moved, (uint64_t)1);
  if (status == ONSTACK_LOOK_MOVED && !last) return WALL_AGAIN;
  if (status == ONSTACK_LOOK_GONE) return WALL_GONE;
  wall_account(slot, state, index, &clocks, status);
  return WALL_LOOKED;
}

/* Who has not run since it got its timer has stood since then; who has begun since the session did, has been blocked, or has
   waited, from its beginning on. A machine that was suspended adds that to ages (CLOCK_BOOTTIME): such an age says nothing. */
static void wall_begin(const onstack_wall_state *state, uint32_t index, uint32_t tid, uint64_t now_ns, uint64_t cpu_ns) {
  onstack_wall_mark *mark = &state->marks[index];
  const uint64_t age_ns = onstack_task_age_ns(tid), armed_ns = onstack_observe(&state->armed[index].ns);
  *mark = (onstack_wall_mark){.tid = tid, .seen_ns = now_ns, .cpu_ns = cpu_ns, .runnable_ns = WALL_UNKNOWN};
  onstack_task_name(tid, mark->name);                              /* of one that has ended nobody tells it */
  const uint64_t found_ns = armed_ns != 0 ? now_ns - armed_ns : 0; /* ago */
  if (age_ns == 0 || age_ns >= now_ns - state->joined_ns || age_ns > found_ns + WALL_FOUND_NS) {
    onstack_task_waited(tid, &mark->runnable_ns, &mark->timeslices);
    if (armed_ns != 0 && onstack_load_relaxed(&state->armed[index].cpu_ns) == cpu_ns) mark->seen_ns = armed_ns;
    return;
  }
  mark->seen_ns -= age_ns > WALL_AGE_NS / 2 + cpu_ns ? age_ns - WALL_AGE_NS / 2 : cpu_ns;
  mark->cpu_ns = mark->runnable_ns = 0;
}

/* Somebody who waits only for moments is found running rather than waiting, where a look takes long: it is tried again. */
static wall_looked wall_visit_thread(onstack_slot *slot, onstack_wall_state *state, uint32_t index, uint32_t tid) {
  onstack_wall_mark *mark = &state->marks[index];
  wall_looked looked = WALL_AGAIN;
  for (uint32_t round = 1; looked == WALL_AGAIN; round++) {
    const uint64_t now_ns = onstack_monotonic_ns();
    uint64_t cpu_ns;
    if (!onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &cpu_ns)) {
      onstack_store_relaxed(&state->reborn[index], (uint8_t)1); /* if there is one of that id again */
      return WALL_GONE;
    }
    if (mark->tid != 0 && cpu_ns < mark->cpu_ns) {
      onstack_wall_gone(slot, mark, index, now_ns);
      onstack_store_relaxed(&state->reborn[index], (uint8_t)1);
    }
    if (mark->tid == 0) wall_begin(state, index, tid, now_ns, cpu_ns);
    if (cpu_ns == mark->cpu_ns && onstack_wall_stands(slot, mark)) {
      onstack_wall_stay(mark, now_ns - mark->seen_ns);
      mark->seen_ns = now_ns;
      return WALL_LOOKED;
    }
    looked = wall_look(slot, state, index, now_ns, cpu_ns, round == WALL_TRIES);
  }
  return looked;
}

/* It has stood for so long that a look now would hardly tell anything. */
static bool wall_may_wait(const onstack_slot *slot, const onstack_wall_state *state, const onstack_wall_mark *mark) {
  if (state->round_ns == 0 || !onstack_wall_stands(slot, mark)) return false;
  const uint64_t pause_ns = (mark->seen_ns - mark->stood_ns) / WALL_STAND_SHARE;
  return state->round_ns - mark->seen_ns < (pause_ns < WALL_STAND_NS ? pause_ns : WALL_STAND_NS);
}

static void wall_visit(onstack_slot *slot, onstack_wall_state *state, uint32_t index) {
  onstack_wall_mark *mark = &state->marks[index];
  const uint32_t tid = onstack_observe(&slot->threads.tids[index]);
  const onstack_timer_state timer = onstack_timer_state_of(&slot->threads.records[index].timer);
  if (mark->tid != 0 && mark->tid != tid) onstack_wall_gone(slot, mark, index, onstack_monotonic_ns());
  if (tid == 0 || (timer != ONSTACK_TIMER_ARMED && timer != ONSTACK_TIMER_REFUSED)) return;
  if (wall_may_wait(slot, state, mark)) {
    state->threads++;
  } else if (wall_visit_thread(slot, state, index, tid) == WALL_LOOKED) {
    state->threads++;
    onstack_wall_tell_if_due(slot, mark, state->held_ns);
  } else if (mark->tid != 0)
    onstack_wall_gone(slot, mark, index, onstack_monotonic_ns());
}

/* ---- the source ---- */

static void wall_visit_all(onstack_slot *slot, onstack_wall_state *state) {
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++)
    if (onstack_load_relaxed(&slot->threads.tids[i]) != 0 || state->marks[i].tid != 0) wall_visit(slot, state, i);
}

/* Nothing tells what new threads did before they had a timer: that counts as lost. `half_ns`: in the end half a tick is one. */
static void wall_count_unseen(onstack_slot *slot, onstack_wall_state *state, uint64_t half_ns) {
  const uint64_t unseen_ns = onstack_load_relaxed(&state->unseen_ns), ticks = (unseen_ns + half_ns) / slot->period;
  const uint64_t counted_ns = ticks * slot->period;
  if (ticks == 0) return;
  onstack_sub_relaxed(&state->unseen_ns, counted_ns < unseen_ns ? counted_ns : unseen_ns);
  onstack_wall_lose(slot, counted_ns, ticks);
}

/* Nanoseconds of this thread's CPU time that a round took. */
static uint64_t wall_round(onstack_slot *slot, onstack_wall_state *state, uint64_t now_ns) {
  const uint64_t before_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  state->threads = 0;
  state->round_ns = now_ns;
  wall_visit_all(slot, state);
  wall_count_unseen(slot, state, 0);
  state->held_ns = WALL_HELD_NS + state->threads * (uint64_t)WALL_HELD_EACH_NS;
  onstack_add_relaxed(&state->rounds, (uint64_t)1);
  return onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
}

/* One at a time: the looking thread, or a poll, and in the end the stopping thread, which keeps it. Nobody waits in a round. */
static bool wall_enter(onstack_wall_state *state) {
  uint32_t expected = 0;
  return onstack_load_relaxed(&state->looking) == 0 && onstack_cas(&state->looking, &expected, 1u);
}

static void wall_leave(onstack_wall_state *state) { onstack_publish(&state->looking, 0u); }

static uint64_t wall_source_work(void *data) {
  onstack_slot *slot = data;
  onstack_wall_state *state = &slot->wall;
  if (onstack_dekker_load(&slot->state) != ONSTACK_SLOT_RUNNING) return slot->period % WALL_LONGEST_NS;
  if (!wall_enter(state)) return slot->period % WALL_LONGEST_NS;
  uint64_t now_ns = onstack_monotonic_ns();
  if (now_ns >= state->next_ns) {
    /* The first round looks at every thread, and is no measure for those that follow. */
    state->took_ns = (state->took_ns * 7 + wall_round(slot, state, now_ns)) / 8;
    const uint64_t pause_ns =
        slot->period / 2 + onstack_arm_random(slot->threads.process, 0, slot->generation, slot->period);
    state->next_ns = now_ns + (state->took_ns * WALL_SHARE > pause_ns ? state->took_ns * WALL_SHARE : pause_ns);
    now_ns = onstack_monotonic_ns();
  }
  const uint64_t left_ns = state->next_ns > now_ns ? state->next_ns - now_ns : 0;
  wall_leave(state);
  return left_ns < WALL_LONGEST_NS ? left_ns : WALL_LONGEST_NS;
}

/* A consumer that is behind gets a moment; all together as long. */
static void wall_wait_for_room(onstack_slot *slot, uint64_t until_ns) {
  while (onstack_ring_is_half_full(&slot->ring) && onstack_monotonic_ns() < until_ns) {
    onstack_exchange(&slot->wake, 1u);
    onstack_sys_futex_wake(&slot->wake);
    onstack_sys_sleep(200000);
  }
}

static void wall_source_finish(onstack_slot *slot) {
  onstack_wall_state *state = &slot->wall;
  const uint64_t until_ns = onstack_monotonic_ns() + WALL_FULL_WAIT_NS;
  for (uint32_t round = 0; !wall_enter(state); round++) onstack_moment(round);
  wall_round(slot, state, 0);
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    if (state->marks[i].tid == 0) continue;
    wall_wait_for_room(slot, until_ns);
    onstack_wall_end(slot, &state->marks[i], i);
  }
  wall_count_unseen(slot, state, slot->period / 2);
}

static void wall_source_drop(onstack_slot *slot) {
  onstack_wall_state *state = &slot->wall;
  slot->runnable_ns = NULL;
  state->marks = NULL;
  state->armed = NULL;
  state->reborn = NULL;
  if (state->memory) madvise(state->memory, state->bytes, MADV_DONTNEED);
}

/* Its pages are zero. 0 or -errno. */
static int wall_take_memory(onstack_wall_state *state, size_t bytes) {
  if (state->bytes >= bytes) return 0;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  madvise(memory, bytes, ONSTACK_WIPE_ON_FORK); /* a child of fork has none of these threads; refused: it has a copy */
  onstack_own_memory_keeps(memory, bytes);
  state->memory = memory;
  state->bytes = bytes;
  return 0;
}

/* Of a blocked thread there are two registers, from which rules alone lead further. */
static int wall_source_check(const onstack_options *options, onstack_settings *settings, const char **fault) {
  const int result = onstack_source_check_rate(options, WALL_FREQUENCY, settings, fault);
  if (result < 0 || settings->unwinder->needs_rules || settings->unwinder == &onstack_unwinder_pc_only) return result;
  *fault = settings->custom ? "custom_unwinder: cannot walk a thread from outside: take another clock"
                            : "unwinder: give rules or pc_only: no other can walk a thread from outside";
  return ONSTACK_E_UNWINDER;
}

/* Its pages, before any thread is armed. */
static int wall_source_prepare(onstack_slot *slot) {
  onstack_wall_state *state = &slot->wall;
  const size_t marks = ONSTACK_THREAD_RECORDS * sizeof(onstack_wall_mark), waits = ONSTACK_THREAD_RECORDS * sizeof(uint64_t),
               armed = ONSTACK_THREAD_RECORDS * sizeof(onstack_wall_armed), reborn = ONSTACK_THREAD_RECORDS;
  const size_t look = (sizeof(onstack_look) + 63) & ~(size_t)63,
               stride = (onstack_wall_stack_bytes(slot) + 63) & ~(size_t)63;
  wall_source_drop(slot); /* in the child of a fork, the parent's */
  const int result = wall_take_memory(state, marks + waits + armed + reborn + look + ONSTACK_THREAD_RECORDS * stride);
  if (result < 0) return result;
  *state = (onstack_wall_state){.memory = state->memory,
                                .bytes = state->bytes,
                                .joined_ns = onstack_monotonic_ns(),
                                .marks = (onstack_wall_mark *)(void *)state->memory,
                                .armed = (onstack_wall_armed *)(void *)(state->memory + marks + waits),
                                .reborn = state->memory + marks + waits + armed,
                                .look = (onstack_look *)(void *)(state->memory + marks + waits + armed + reborn),
                                .stacks = state->memory + marks + waits + armed + reborn + look,
                                .stride = stride};
  slot->runnable_ns = (uint64_t *)(void *)(state->memory + marks);
  slot->says_states = true;
  return 0;
}

static void wall_source_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_wall_state *state = &slot->wall;
  const size_t index = (size_t)(record - slot->threads.records);
  uint64_t cpu_ns;
  if (state->reborn) onstack_store_relaxed(&state->reborn[index], (uint8_t)0); /* of who had the record before */
  if (state->armed && onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &cpu_ns)) {
    const uint64_t now_ns = onstack_monotonic_ns();
    onstack_store_relaxed(&state->armed[index].cpu_ns, cpu_ns);
    onstack_publish(&state->armed[index].ns, now_ns);
    /* Found by a scan; one that is older than the session is armed at its start, unless there was no record for it. */
    if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING && cpu_ns <= now_ns - state->joined_ns)
      onstack_add_relaxed(&state->unseen_ns, cpu_ns);
  }
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
}

static bool wall_source_read(uint32_t tid, uint64_t *ns) {
  return onstack_timer_read_clock(onstack_timer_cpu_clock(tid), ns);
}

static bool wall_source_doubts(const onstack_slot *slot, uint32_t tid) {
  const onstack_thread *record = onstack_thread_find(&slot->threads, tid);
  uint8_t *reborn = slot->wall.reborn;
  return record && reborn && onstack_exchange(&reborn[record - slot->threads.records], (uint8_t)0) != 0;
}

static void wall_source_fill(const onstack_slot *slot, onstack_stats *stats) {
  const onstack_wall_state *state = &slot->wall;
  stats->wall_rounds = onstack_load_relaxed(&state->rounds);
  stats->wall_looks = onstack_load_relaxed(&state->looks);
  stats->wall_moved = onstack_load_relaxed(&state->moved);
  stats->wall_refused = onstack_load_relaxed(&state->refused);
}

static const onstack_thread_timers wall_timers = {
    .arm = wall_source_arm, .remove = onstack_arm_remove, .read = wall_source_read, .doubts = wall_source_doubts};

static int wall_source_start(onstack_slot *slot, const onstack_settings *settings) {
  if (onstack_timer_probe(CLOCK_PROCESS_CPUTIME_ID, slot->signal, 0) < 0 || !onstack_look_works()) return ONSTACK_E_CLOCK;
  int result = wall_source_prepare(slot);
  if (result < 0) return result == -ENOMEM ? result : ONSTACK_E_CLOCK;
  result = onstack_discovery_start(slot, settings, &wall_timers);
  if (result < 0 || !settings->threads) return result; /* polls look, then */
  result = onstack_worker_start_for(&slot->worker, "onstack-wall", wall_source_work, slot);
  if (result < 0) onstack_discovery_stop(slot);
  return result;
}

static bool wall_source_tend(onstack_slot *slot, const onstack_source_round *round) {
  const bool away = onstack_discovery_tend(slot, round, WALL_SCAN_SHARE);
  if (round->runs && !round->settings->threads) wall_source_work(slot);
  return away;
}

/* What is held back becomes samples while the slot runs yet. */
static void wall_source_stop(onstack_slot *slot) {
  onstack_worker_stop(&slot->worker);
  wall_source_finish(slot);
  onstack_discovery_stop(slot);
}

ONSTACK_INTERNAL_DEFINE const onstack_source onstack_source_wall = {
    .name = "wall",
    .number = ONSTACK_CLOCK_WALL,
    .kind = ONSTACK_KIND_WALL,
    .unit = ONSTACK_UNIT_NANOSECONDS,
    .label_bytes = ONSTACK_WAIT_LABEL_BYTES,
    .counters = {{"rounds", offsetof(onstack_stats, wall_rounds)},
                 {"looks", offsetof(onstack_stats, wall_looks)},
                 {"moved", offsetof(onstack_stats, wall_moved)},
                 {"refused", offsetof(onstack_stats, wall_refused)}},
    .check = wall_source_check,
    .start = wall_source_start,
    .tend = wall_source_tend,
    .stop = wall_source_stop,
    .drop = wall_source_drop,
    .fill = wall_source_fill,
};
