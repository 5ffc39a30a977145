/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The consumer's side of a session: the drain thread, or whoever polls. One at a time, by the consumer lock. */
#include "sampler/api/session.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "sampler/signal/action.h"
#include "sampler/session/code_map_update.h"
#include "sampler/modules/modules.h"
#include "sampler/source/source.h"
#include "sampler/source/threads.h"
#include "sampler/unwind/code_map.h"
#include "sampler/signal/own_threads.h"
#include "onstack/profile.h"

#include <time.h>

/* ---- pace ---- */

/*
 * How long a drain thread waits between two rounds. A round costs a wake-up, most of which is the kernel's, so a process that
 * sleeps is woken rarely, and one that works as often as something happens that a round is made for.
 */
#define PACE_BUSY_NS 10000000u  /* while the process works and things happen */
#define PACE_IDLE_NS 50000000u  /* once the process sleeps; then twice as long each time, */
#define PACE_REST_NS 250000000u /* up to here */
#define PACE_LONGEST_NS 500000000u
#define PACE_WORKS_NS 500000u /* of CPU time since the last round, without that of our own threads */
#define PACE_CLOCK_SHARE 64u  /* of a processor, that goes into the process's CPU time: it is a sum over threads */

/* What is seen in a round. */
typedef struct pace_signs {
  bool rests;  /* samples alone may end a rest: another source's new threads are to be found whether they work or not */
  bool steady; /* nothing is there that changes from one instant to the next, as an interpreter's code */
  uint64_t period_ns; /* of the session's ticks */
  uint64_t threads;   /* met so far */
  uint32_t map;       /* the number of the state of the map of objects */
} pace_signs;

/* After so many uneventful rounds a pause is twice as long, up to as many periods: what another owner's handler may take from
   each thread before it is noticed. */
#define PACE_UNEVENTFUL 16u
#define PACE_STEADY_NS 40000000u
#define PACE_STEADY_PERIODS 4u

/* How long a process that sleeps is left alone: ticks of CPU time come only once it works, and the first one wakes the drain
   thread (record_handler.c). What it costs: a handler that was displaced meanwhile is noticed that much later. */
static uint64_t pace_rest(onstack_pace *pace, bool rests) {
  const uint64_t longer = pace->rest_ns * 2 < PACE_REST_NS ? pace->rest_ns * 2 : PACE_REST_NS;
  pace->rest_ns = longer == 0 || !rests ? PACE_IDLE_NS : longer;
  return pace->rest_ns;
}

/* Something has happened that the signs do not say: another owner's handler stood above ours. */
static void pace_hurry(onstack_pace *pace) { pace->uneventful = 0; }

static void pace_count(onstack_pace *pace, const pace_signs *signs) {
  const bool same = signs->steady && signs->threads == pace->threads && signs->map == pace->map;
  pace->uneventful = !same ? 0 : pace->uneventful + (pace->uneventful < 2 * PACE_UNEVENTFUL);
  pace->threads = signs->threads;
  pace->map = signs->map;
}

static uint64_t pace_work(onstack_pace *pace, const pace_signs *signs) {
  const uint64_t periods = signs->period_ns * PACE_STEADY_PERIODS;
  const uint64_t most = periods < PACE_STEADY_NS ? periods : PACE_STEADY_NS;
  const uint64_t pause = (uint64_t)PACE_BUSY_NS << (pace->uneventful / PACE_UNEVENTFUL);
  pace->rest_ns = PACE_IDLE_NS;
  return pause < most ? pause : most > PACE_BUSY_NS ? most : PACE_BUSY_NS;
}

/* At the end of a round: nanoseconds to the next, and whether the process has worked since the last. */
static uint64_t pace_next(onstack_pace *pace, const pace_signs *signs, bool *busy) {
  const uint64_t now = onstack_monotonic_ns();
  *busy = true;
  /* A round that a request brought early saw too little time to tell. */
  if (now - pace->checked_ns < PACE_BUSY_NS) return PACE_BUSY_NS;
  pace_count(pace, signs);
  const uint64_t own = onstack_load_relaxed(&onstack_own_cpu_ns), before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t cpu = onstack_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
  const uint64_t least = (onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) * PACE_CLOCK_SHARE;
  *busy = (int64_t)(cpu - pace->process_cpu_ns) > (int64_t)PACE_WORKS_NS;
  pace->process_cpu_ns = cpu;
  pace->checked_ns = now;
  const uint64_t pause = *busy ? pace_work(pace, signs) : pace_rest(pace, signs->rests);
  return least < pause ? pause : least < PACE_LONGEST_NS ? least : PACE_LONGEST_NS;
}

/* ONSTACK_PAUSE_* of such a pause: which samples end it. */
static uint32_t pace_kind(const onstack_pace *pace, uint64_t pause_ns) {
  /* A long pause of a process that works is one that its many threads ask for: its samples do not end it. */
  if (pause_ns > PACE_IDLE_NS && pace->rest_ns > PACE_IDLE_NS) return ONSTACK_PAUSE_REST;
  return pause_ns > PACE_BUSY_NS ? ONSTACK_PAUSE_LONG : ONSTACK_PAUSE_SHORT;
}

/* ---- rounds ---- */

#define SESSION_STALE_NS 100000000u /* executable ranges after an unknown return address */
#define SESSION_BOUNDS_NS 10000000u /* stack bounds that a record requests */
/* A look at all mappings takes a part of a processor at most, a hundredth when nobody asks: ten thousand stacks are 30 ms. */
#define SESSION_LOOK_SHARE 100u
#define SESSION_LOOK_ASKED_SHARE 20u /* a twentieth while code runs that is not in the map */

#define SESSION_YOUNG_NS 3000000000u
#define SESSION_YOUNG_PERIOD_NS 1000000u

/* Bytes of .eh_frame that are derived between two looks at the ring. */
#define SESSION_RULES_BUDGET ((size_t)1 << 20)

/*
 * Short processes end before their tables have paid: those of a compiler are 90 ms. So in the beginning the rules of what
 * is sampled are found one by one, for stacks that are kept meanwhile (sampler/drain/deliver.c). Not where they would be
 * too many for the pool, or nobody looks at it every 10 ms.
 */
static bool session_waits_with_rules(const onstack_session *session) {
  const onstack_slot *slot = session->slot;
  const uint64_t *cut = &session->delivered[slot->kind].truncated_by[ONSTACK_TRUNCATED_PENDING];
  if (slot->kind != ONSTACK_KIND_CPU || !session->settings.threads) return false;
  /* One that could not be walked again: the kernel copies no stacks (seccomp), or it is too deep. */
  if (!slot->kept || !slot->copy_works || onstack_load_relaxed(cut) > 0) return false;
  /* Handlers tell by the whole stack whose an interpreter's frames are. */
  if (onstack_interpreters_are_met(&session->interpreters, slot)) return false;
  return slot->period >= SESSION_YOUNG_PERIOD_NS && onstack_monotonic_ns() - session->begun_ns < SESSION_YOUNG_NS;
}

/*
 * Which objects are loaded, and more of their rules. A sample was walked by what was known then: one of these objects may
 * have been another for some milliseconds, and only a look that comes after the sample can tell (sampler/drain/deliver.c).
 */
static void session_look(onstack_session *session) {
  const bool wants_rules = session->settings.unwinder->needs_rules && !session_waits_with_rules(session);
  session->needs_rules = onstack_modules_refresh(wants_rules ? SESSION_RULES_BUDGET : 0) && wants_rules;
  onstack_spans_look();
}

/* Time spent in waiting for a processor is none that the look takes. */
static void session_look_at_mappings(onstack_session *session) {
  const uint64_t before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  onstack_code_map_refresh(session->slot);
  session->look_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
  session->refreshed_ns = onstack_monotonic_ns();
}

/* Stacks in code that was mapped a moment ago are believed as far as a map that is younger knows them. */
static void session_look_for_code(onstack_session *session) {
  if (!onstack_load_relaxed(&onstack_code.missed)) return;
  if (onstack_monotonic_ns() - session->refreshed_ns < session->look_ns * SESSION_LOOK_ASKED_SHARE) return;
  session_look_at_mappings(session);
}

/* A sink may fork without atfork handlers and return in the child: that is to be seen before the next sample. */
static int session_sink(void *data, const onstack_sample *sample) {
  ONSTACK_STOP_EXCEPTIONS;
  onstack_session *session = data;
  const uint32_t ours = onstack_ours;
  onstack_ours = 0; /* the sink is the host's; a profile's says so itself */
  int result = session->settings.sink(session->settings.sink_data, sample);
  onstack_ours = ours;
  onstack_fork_repair();
  return result;
}

/* What the source has to do, and what the handler may not do itself; `runs`: the session is not over. Under the consumer
   lock. */
static void session_tend(onstack_session *session, bool runs) {
  onstack_slot *slot = session->slot;
  const uint64_t now = onstack_monotonic_ns();
  const bool armed = runs && onstack_observe(&session->armed);
  bool due = armed && now - session->tended_ns >= SESSION_TEND_NS, on_top = false;
  if (runs && slot->signal != 0 && onstack_control_try_lock()) {
    on_top = !onstack_action_tend(slot->signal);
    if (!on_top) pace_hurry(&session->pace);
    if (due) onstack_action_end_back_off(slot->signal);
    onstack_control_unlock();
  }
  const onstack_source_round round = {.settings = &session->settings,
                                      .now_ns = now,
                                      .runs = armed,
                                      .due = due,
                                      .on_top = on_top,
                                      .sink = session->settings.sink ? session_sink : NULL,
                                      .data = session,
                                      .refused = &session->delivered[slot->kind].refused};
  const bool rests = slot->source->tend(slot, &round);
  if (!runs || !session_is_here(session)) return;
  session->rests = rests;
  if (due) session->tended_ns = now;
  bool stale = onstack_load_relaxed(&onstack_code.stale) && now - session->refreshed_ns >= SESSION_STALE_NS;
  const bool requested = onstack_load_relaxed(&slot->bounds_requested) && now - session->refreshed_ns >= SESSION_BOUNDS_NS;
  due = due && now - session->refreshed_ns >= session->look_ns * SESSION_LOOK_SHARE;
  if (due || stale || requested) session_look_at_mappings(session);
}

/* The first round in a child that follows. Under the consumer lock, as a sink call. */
static void session_ask_child(onstack_session *session) {
  ONSTACK_STOP_EXCEPTIONS;
  session->child_is_new = false;
  if (!session->settings.fork_sink_data) return;
  onstack_own_close();
  onstack_store_relaxed(&session->slot->sink_tid, onstack_sys_gettid());
  session->settings.sink_data = session->settings.fork_sink_data(session->settings.sink_data);
  onstack_store_relaxed(&session->slot->sink_tid, 0);
}

/* On a thread of ours: no function of the host's is called from here to onstack_own_close. A thread filter is called in
   the middle of a scan. */
static void session_open_own(const onstack_session *session) {
  const onstack_settings *settings = &session->settings;
  const onstack_slot *slot = session->slot;
  if (slot->signal != 0 && !settings->own_threads && !settings->thread_filter) onstack_own_open(slot->signal);
}

static const onstack_derive session_derive = {onstack_modules_describe, onstack_modules_derive};

void onstack_session_walk_again(const onstack_session *session, onstack_kept *kept, onstack_walked *stack) {
  if (kept)
    onstack_again(session->slot, kept, &session_derive, stack);
  else if (stack->truncation == ONSTACK_TRUNCATED_PENDING)
    onstack_modules_derive(stack->frames[stack->count - 1] - (stack->count > 1));
}

static uint32_t session_deliver(onstack_session *session, uint32_t max, uint64_t end) {
  onstack_slot *slot = session->slot;
  const onstack_sink sink = session->settings.sink;
  if (sink && sink != onstack_profile_sink) onstack_own_close();
  if (session->child_is_new && onstack_ring_front(&slot->ring)) session_ask_child(session);
  const onstack_delivery to = {
      sink ? session_sink : NULL,     session, max, end, &session_derive, session->interpreters.frames,
      &session->interpreters.counters};
  return onstack_deliver(slot, &to, session->delivered, &session->module_statistics);
}

uint32_t onstack_session_consume(onstack_session *session, uint32_t max) {
  const uint64_t end = onstack_ring_filled(&session->slot->ring);
  session_look(session);
  onstack_interpreters_look(&session->interpreters, session->slot);
  session_look_for_code(session);
  uint32_t handed = session_deliver(session, max, end);
  /* A sink that forked and returned in the child: nothing here is ours any more. */
  if (!session_is_here(session)) return handed;
  const bool runs = onstack_observe(&session->running);
  if (runs) session_open_own(session);
  session_tend(session, runs);
  return handed;
}

/* Our threads end without a word, so that libc sees the process's last thread end, and calls exit(). What an exit handler
   then does with the session, it does on one of them. */
static void session_let_go(onstack_session *session) {
  onstack_worker_dismiss(&session->drain);
  onstack_worker_dismiss(&session->slot->worker);
}

/* What a round is made early for. */
static pace_signs session_signs(const onstack_session *session) {
  const onstack_slot *slot = session->slot;
  const bool code = onstack_load_relaxed(&onstack_code.missed) || onstack_load_relaxed(&onstack_code.stale);
  /* A Go runtime in a library installs its handler when its profile begins, and takes the ticks of others for its own. */
  const bool go = onstack_observe(&onstack_code.go_count) > 0;
  return (pace_signs){
      .rests = session->rests,
      .steady = session->rests && !code && !go && !onstack_interpreters_are_met(&session->interpreters, slot),
      .period_ns = slot->period,
      .threads = onstack_load_relaxed(&slot->counters.threads_seen) + onstack_load_relaxed(&slot->counters.threads_unarmed),
      .map = onstack_seqlock_begin(&onstack_modules.lock),
  };
}

static uint64_t session_next_look(onstack_session *session) {
  if (session->needs_rules) return 0;
  const pace_signs signs = session_signs(session);
  bool busy = true;
  const uint64_t pause = pace_next(&session->pace, &signs, &busy);
  /* Not before the start has made all of them: in a child of fork the host's one thread may have ended by then. */
  if (!busy && session->settings.threads && onstack_observe(&session->armed) && onstack_threads_are_all_ours() > 0)
    session_let_go(session);
  return pause;
}

/* A thread has ended inside of the handler, so the samples behind its own are held up. Drops that one, and counts it. */
static bool session_drop_abandoned(onstack_session *session) {
  onstack_slot *slot = session->slot;
  onstack_ring_entry *entry = onstack_ring_abandoned(&slot->ring);
  if (!entry) return false;
  onstack_sum *lost = &slot->lost[entry->kind].unwinder;
  onstack_add_relaxed(&lost->weight, (uint64_t)entry->weight);
  onstack_add_relaxed(&lost->value, entry->value);
  onstack_ring_release(&slot->ring, entry);
  return true;
}

uint64_t onstack_session_drain_work(void *data) {
  onstack_session *session = data;
  if (!session_is_here(session)) {
    onstack_publish(&session->drain.quit, 1u);
    return PACE_BUSY_NS;
  }
  session_open_own(session);
  if (!session_lock_consumer(session)) return PACE_BUSY_NS;
  do {
    while (onstack_session_consume(session, 0) > 0 && onstack_ring_front(&session->slot->ring)) continue;
  } while (onstack_observe(&session->idle) && session_is_here(session) && session_drop_abandoned(session));
  uint64_t pause = session_next_look(session);
  onstack_dekker_store(&session->slot->pauses, pace_kind(&session->pace, pause));
  /* One that came during this round has woken nobody; pairs with the fence in sampler/session/record_handler.c. */
  onstack_fence_dekker();
  if (pause > PACE_BUSY_NS && onstack_ring_front(&session->slot->ring)) pause = PACE_BUSY_NS;
  pthread_mutex_unlock(&session->consumer_lock);
  onstack_own_close();
  return pause;
}
