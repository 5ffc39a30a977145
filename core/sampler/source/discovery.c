/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/discovery.h"

#include "platform/process.h"
#include "platform/calls.h"
#include "platform/sys.h"
#include "sampler/signal/action.h"
#include "sampler/signal/own_threads.h"
#include "sampler/source/arm.h"
#include "sampler/source/process_tick.h"
#include "sampler/threads/task.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#define DISCOVERY_KERNEL_TICK 4000000u /* where nobody tells */
#define DISCOVERY_PROCESSORS 32        /* at work, at most: more are not waited for */

/*
 * Where the process tick finds new threads, or is handed on to them, some get none: those that sleep at each look, or block the
 * signal. A scan takes what no tick has met in three periods of the thread's CPU time. Not earlier: a timer of its
 * own loses what is due after a thread's last kernel tick, the process tick does not, and of lives of 20 ms that is a fifth.
 * It asks for the thread's age alone, so that what a thread is expected to weigh does not depend on when it comes.
 */
#define DISCOVERY_SCAN_PERIODS 3u
#define DISCOVERY_SCAN_NS 10000000u    /* between two scans */
#define DISCOVERY_SCAN_SHARE 20u       /* of a processor at most, a twentieth, where hardly anything else finds threads */
#define DISCOVERY_SCAN_RARE_SHARE 500u /* and a five-hundredth where the process tick does */

#define HAND_ON_PAUSE_NS 10000000u /* between two looks, or so many times what a look takes */
#define HAND_ON_SHARE 200u
#define HAND_ON_LATE_SHARE 1000u   /* one that finds nothing missing, as of many threads that work it mostly does */
#define HAND_ON_VAIN_NS 320000000u /* the longest pause after looks that found nobody */
#define HAND_ON_BRINGS_NS 40000000u
#define HAND_ON_WAIT_NS 200000000u

/* ---- the process's clock ---- */

/* Before Linux 6.4 the kernel hands a process-wide signal to the main thread whenever that one takes it, running or not
   (kernel/signal.c, complete_signal; changed for posix timers in 6.4). */
bool onstack_discovery_meets_all(void) {
  struct utsname system;
  unsigned major, minor;
  if (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 4);
}

/* Of the sessions of a clock other than this one, one with the shortest period; NULL: there are none. */
static onstack_slot *process_clock_fastest(const onstack_process_clock *clock, const onstack_slot *self) {
  onstack_slot *fastest = NULL;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_slot *slot = &onstack_slots[i];
    if (slot == self || slot->process_clock != clock) continue;
    if (!fastest || slot->period < fastest->period) fastest = slot;
  }
  return fastest;
}

/* That of the signal, or a free one: there are as many as sessions. */
static onstack_process_clock *process_clock_find(int32_t signal) {
  onstack_process_clock *found = NULL;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_slots[i].own_process_clock;
    if (!clock->record) clock->record = onstack_thread_of_process_clock(i);
    if (clock->signal == signal) return clock;
    if (clock->signal == 0 && !found) found = clock;
  }
  return found;
}

/* Not counted against the quota: there are at most ONSTACK_MAX_SESSIONS of them, and without one a session is blind. */
static int process_clock_create(onstack_process_clock *clock, int32_t signal) {
  onstack_timer *timer = &clock->record->timer;
  const uint64_t cookie = onstack_thread_cookie(clock->record, clock->generation);
  clock->leader = NULL; /* it does not tick yet */
  onstack_timer_clear(timer);
  onstack_timer_move(timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_ARMING);
  onstack_timer_reset(timer); /* of who had it before: a start may end before this one is set */
  const int result = onstack_timer_create(timer, CLOCK_PROCESS_CPUTIME_ID, signal, 0, cookie);
  if (result < 0)
    onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_NONE);
  else
    clock->signal = signal;
  return result;
}

/* Before any thread is armed, so that the threads cannot use up what the kernel allows. */
int onstack_discovery_by_process(onstack_slot *slot) {
  onstack_process_clock *clock = process_clock_find(slot->signal);
  const int result = clock->signal == 0 ? process_clock_create(clock, slot->signal) : 0;
  if (result < 0) return result;
  slot->process_clock = clock;
  slot->discovery.scan_age_ns = onstack_discovery_meets_all() ? slot->period * DISCOVERY_SCAN_PERIODS : 0;
  return 0;
}

/* How often the kernel looks at timers of CPU time. */
static uint64_t process_clock_kernel_tick(void) {
  struct timespec tick;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0 || tick.tv_sec > 0 || tick.tv_nsec < 1000)
    return DISCOVERY_KERNEL_TICK;
  return (uint64_t)tick.tv_nsec;
}

/* That the process may use; no file is read, for the child of a fork. */
static uint32_t process_clock_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return DISCOVERY_PROCESSORS;
  const int count = CPU_COUNT(&set);
  return count > 0 && count < DISCOVERY_PROCESSORS ? (uint32_t)count : DISCOVERY_PROCESSORS;
}

/* It counts that session's ticks from now on (sampler/source/process_tick.h). */
static int process_clock_lead(onstack_process_clock *clock, onstack_slot *leader) {
  const uint64_t kernel_ns = process_clock_kernel_tick();
  onstack_dekker_store(&clock->leader, NULL);
  onstack_threads_wait_outside(&clock->inside); /* a handler that knows the old one may be setting it */
  onstack_store_relaxed(&clock->setting, 0u);   /* one that has ended there has not let go */
  clock->step_ns = leader->period > kernel_ns ? leader->period : kernel_ns;
  onstack_store_relaxed(&clock->spread_ns, kernel_ns * process_clock_processors()); /* handlers that begin now read it */
  const int result = onstack_process_begin(clock, leader);
  onstack_dekker_store(&clock->leader, leader);
  return result;
}

/* From here on the process clock ticks for the slot; the fastest of its sessions leads. After the threads are armed, so that
   no handler claims a record meanwhile; threads that could not be listed it finds by itself. */
static int process_clock_start(onstack_slot *slot) {
  onstack_process_clock *clock = slot->process_clock;
  uint64_t now_ns;
  /* What the timers that were armed first have told already is accounted for. */
  const uint64_t told_ns = onstack_load_relaxed(&slot->counters.ticks) * slot->period;
  slot->process_start_ns = onstack_process_read(slot, &now_ns) ? (now_ns - told_ns) | 1u : 0;
  onstack_publish(&slot->meets, 1u);
  return clock->leader && clock->leader->period <= slot->period ? 0 : process_clock_lead(clock, slot);
}

static void process_clock_end(onstack_process_clock *clock) {
  onstack_timer *timer = &clock->record->timer;
  uint64_t now_ns = 0;
  int32_t id;
  onstack_dekker_store(&clock->generation, clock->generation + 1u);
  onstack_threads_wait_outside(&clock->inside); /* one that has seen the generation before may be setting the timer */
  if (onstack_timer_take(timer, ONSTACK_TIMER_STOPPED, &id)) {
    onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &now_ns);
    clock->due = onstack_timer_due(timer, clock->period_ns, now_ns);
    onstack_timer_delete(id);
  } else if (onstack_timer_move(timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_NONE)) { /* made and never set */
    onstack_timer_delete(timer->id);
  }
  clock->signal = 0;
}

/* The last session takes the timer away. */
static void process_clock_leave(onstack_slot *slot) {
  onstack_process_clock *clock = slot->process_clock;
  if (!clock || clock->signal == 0) return;
  uint64_t used_ns;
  if (onstack_process_used(slot, &used_ns)) onstack_store_relaxed(&slot->counters.cpu_ns, used_ns);
  onstack_slot *fastest = process_clock_fastest(clock, slot);
  if (!fastest)
    process_clock_end(clock);
  else if (clock->leader == slot)
    process_clock_lead(clock, fastest);
}

void onstack_discovery_after_fork(void) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_slots[i].own_process_clock;
    clock->signal = 0;
    clock->leader = NULL;
    clock->setting = 0;
    memset(&clock->inside, 0, sizeof(clock->inside));
    if (clock->record)
      onstack_timer_after_fork(&clock->record->timer); /* POSIX timers are not inherited (timer_create(2)) */
  }
}

/* ---- process ticks that are handed on ---- */

/* It is taken for a process tick by its cookie, and told apart by the id of its timer. Where the kernel has no room for what a
   signal of this number brings, it sends the bare signal, which were the host's (kernel/signal.c, __send_signal_locked). */
static bool hand_on_send(const onstack_slot *slot, uint32_t tid) {
  const onstack_process_clock *clock = slot->process_clock;
  if (onstack_timer_probe(CLOCK_PROCESS_CPUTIME_ID, slot->signal, 0) < 0) return false;
  const uint64_t cookie = onstack_thread_cookie(clock->record, onstack_dekker_load(&clock->generation));
  return onstack_task_send_tick(tid, slot->signal, ONSTACK_PROCESS_HANDED_ON, 1, cookie) == 0;
}

static bool hand_on_has(const onstack_hand_on_state *state, uint32_t tid) {
  for (uint32_t i = 0; i < state->count; i++)
    if (state->tids[i] == tid) return true;
  return false;
}

/*
 * One that has a record has a timer, or is not to have one. One that sleeps would have its call ended by the signal; one that
 * blocks the signal would keep it, beyond the session's end perhaps. One that has had a tick and has no record had no room for
 * it, or another owner's handler took it: that is left to a scan.
 */
static void hand_on_look_at(void *data, uint32_t tid) {
  onstack_slot *slot = data;
  onstack_hand_on_state *state = &slot->discovery.hand_on;
  if (state->count == ONSTACK_HAND_ON_MOST || hand_on_has(state, tid)) return;
  if (!slot->own_threads && onstack_own_is((int32_t)tid)) return;
  if (onstack_thread_find(&slot->threads, tid)) return;
  if (onstack_task_cpu_us(tid) <= 1 || !onstack_task_runs_open(tid, slot->signal)) return;
  if (!hand_on_send(slot, tid)) return;
  state->tids[state->count++] = tid;
  state->sent++;
}

/* Who has a record by now, or has ended, needs no attention. */
static void hand_on_forget(const onstack_slot *slot, onstack_hand_on_state *state) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < state->count; i++)
    if (!onstack_thread_find(&slot->threads, state->tids[i]) && !onstack_task_is_gone(state->tids[i]))
      state->tids[kept++] = state->tids[i];
  state->count = kept;
}

/* Ticks of threads are late by what the kernel's tick and the wait for a processor take, and come: what is late has its thread.
   Of what is missing beside that some may never be found, as in threads that have ended. It does not grow then. */
static bool hand_on_is_due(const onstack_hand_on_state *state, uint64_t now_ns, uint64_t unaccounted) {
  if (unaccounted == 0 || unaccounted == UINT64_MAX || now_ns < state->next_ns) return false;
  return now_ns >= state->vain_until_ns || unaccounted > state->vain_ticks;
}

/* Beyond its own age a thread is to have no more than what is missing. */
static void hand_on_look(onstack_slot *slot, onstack_hand_on_state *state, uint64_t missing) {
  const uint64_t missing_ns = missing * slot->period;
  onstack_store_relaxed(&slot->process_clock->handed_ns, missing_ns < HAND_ON_BRINGS_NS ? missing_ns : HAND_ON_BRINGS_NS);
  hand_on_forget(slot, state);
  if (!state->looked) state->foreign = onstack_task_list_is_foreign();
  state->looked = true;
  state->sent = 0;
  if (!state->foreign) onstack_task_list_each(hand_on_look_at, slot);
}

/* In vain: not again before more is missing, or for longer each time. */
static void hand_on_note(onstack_hand_on_state *state, uint64_t now_ns, uint64_t unaccounted) {
  if (state->sent > 0) {
    state->vain_pause_ns = HAND_ON_PAUSE_NS;
    state->vain_ticks = 0;
    return;
  }
  state->vain_until_ns = now_ns + state->vain_pause_ns;
  if (state->vain_pause_ns < HAND_ON_VAIN_NS) state->vain_pause_ns *= 2;
  state->vain_ticks = unaccounted;
}

/* How many ticks of armed threads are due and have not come. */
static uint64_t hand_on_late(const onstack_slot *slot) {
  uint64_t late = 0, now_ns;
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    const uint32_t tid = onstack_observe(&slot->threads.tids[i]);
    const onstack_timer *timer = &slot->threads.records[i].timer;
    if (tid == 0 || onstack_timer_state_of(timer) != ONSTACK_TIMER_ARMED || !slot->timers->read(tid, &now_ns)) continue;
    const int32_t missing = (int32_t)(onstack_timer_due(timer, slot->period, now_ns) - onstack_load_relaxed(&timer->ticks));
    if (missing > 0) late += (uint64_t)missing;
  }
  return late;
}

/* Looks, if it is time to. The consumer of the slot only. */
static void hand_on(onstack_slot *slot) {
  onstack_hand_on_state *state = &slot->discovery.hand_on;
  const uint64_t now_ns = onstack_monotonic_ns(), unaccounted = onstack_process_unaccounted(slot);
  if (!hand_on_is_due(state, now_ns, unaccounted)) return;
  state->next_ns = now_ns + HAND_ON_PAUSE_NS;
  if (onstack_task_list_number() == onstack_own_count() + 1)
    return; /* the host's one thread: the process tick meets no other */
  const uint64_t before_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t late = hand_on_late(slot);
  if (unaccounted > late) {
    onstack_dekker_store(&slot->handing_on, 1u);
    if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) hand_on_look(slot, state, unaccounted - late);
    onstack_dekker_store(&slot->handing_on, 0u);
    hand_on_note(state, now_ns, unaccounted);
  }
  const uint64_t took_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
  const uint64_t pause_ns = took_ns * (unaccounted > late ? HAND_ON_SHARE : HAND_ON_LATE_SHARE);
  if (pause_ns > HAND_ON_PAUSE_NS) state->next_ns = now_ns + pause_ns;
}

/* Whether a tick is on its way to that thread, which arms itself then: no scan is to forestall it. The consumer only. */
static bool hand_on_is_sent(const onstack_slot *slot, uint32_t tid) {
  return hand_on_has(&slot->discovery.hand_on, tid) && onstack_task_awaits(tid, slot->signal);
}

/* Waits until nothing is being sent, and nothing will be. After `state` has left RUNNING. */
static void hand_on_wait_sent(const onstack_slot *slot) {
  for (uint32_t round = 0; onstack_dekker_load(&slot->handing_on) != 0; round++) onstack_moment(round);
}

/* What was sent has been taken, or its thread has ended; 0.2 s at most, for a thread that blocks the signal by now, or has no
   processor. Before another action comes back: an owner would take our tick for its own, and by SIG_DFL a thread that a
   debugger stopped on its way to our handler would end the process. */
static void hand_on_wait_taken(const onstack_slot *slot) {
  const onstack_hand_on_state *state = &slot->discovery.hand_on;
  const uint64_t until_ns = onstack_monotonic_ns() + HAND_ON_WAIT_NS;
  for (uint32_t i = 0; i < state->count; i++)
    while (onstack_task_awaits(state->tids[i], slot->signal) && onstack_monotonic_ns() < until_ns) onstack_sys_sleep(50000);
}

/* ---- scans ---- */

/* A quarter of RLIMIT_SIGPENDING, which the kernel counts per user. */
static void discovery_set_quota(void) {
  struct rlimit limit;
  uint32_t allowed = ONSTACK_THREAD_RECORDS;
  if (getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 4 < allowed)
    allowed = (uint32_t)(limit.rlim_cur / 4);
  onstack_store_relaxed(&onstack_timers_allowed, allowed);
}

/* The host's function: it may be asked under the control lock, or while a stop that has the lock waits for our scan, so
   what it starts or stops is refused (CONTEXT), as in a sink. */
static bool discovery_is_wanted(onstack_slot *slot, const onstack_settings *settings, uint32_t tid, const uint64_t name[2]) {
  ONSTACK_STOP_EXCEPTIONS;
  char text[17] = {0};
  if (!settings->thread_filter) return true;
  memcpy(text, name, 16);
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  const bool wanted = settings->thread_filter(settings->thread_filter_data, (int32_t)tid, text) != 0;
  onstack_store_relaxed(&slot->sink_tid, 0);
  return wanted;
}

/* `before`: ticks of what it has used since the session began. */
static void discovery_adopt(onstack_slot *slot, const onstack_settings *settings, uint32_t tid, uint64_t before) {
  uint64_t name[2] = {0, 0};
  onstack_thread *record = onstack_thread_claim(&slot->threads, tid);
  if (!record) { /* there are more threads than records: each scan tries again */
    onstack_add_relaxed(&slot->counters.threads_unarmed, (uint64_t)1);
    return;
  }
  if (onstack_task_name(tid, name)) onstack_thread_set_name(record, name);
  if (discovery_is_wanted(slot, settings, tid, name)) {
    slot->timers->arm(slot, record, tid);
    onstack_store_relaxed(&record->timer.before, before < UINT16_MAX ? (uint16_t)before : UINT16_MAX);
  } else
    onstack_timer_move(&record->timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_UNWANTED);
}

typedef struct discovery_search {
  onstack_slot *slot;
  const onstack_settings *settings;
  uint32_t least_us;
  bool adopt;
  bool owes;
  bool found;
} discovery_search;

static uint64_t discovery_ticks_used(const onstack_slot *slot, uint32_t tid) {
  return ((uint64_t)onstack_task_cpu_us(tid) * 1000u + slot->period / 2) / slot->period;
}

static void discovery_look_at(void *data, uint32_t tid) {
  discovery_search *search = data;
  if (!search->settings->own_threads && onstack_own_is((int32_t)tid)) return;
  if (onstack_thread_find(&search->slot->threads, tid) || hand_on_is_sent(search->slot, tid)) return;
  if (search->least_us > 0 && onstack_task_cpu_us(tid) < search->least_us) return;
  search->found = true;
  if (search->adopt)
    discovery_adopt(search->slot, search->settings, tid, search->owes ? discovery_ticks_used(search->slot, tid) : 0);
}

/* `found`: there are threads without a record that have used `least_us` of CPU time. After the start they are new, and what
   they have used on the CPU clock their first tick tells. */
static int discovery_look(onstack_slot *slot, const onstack_settings *settings, uint32_t least_us, bool adopt, bool *found) {
  const bool owes = onstack_observe(&slot->meets) && onstack_load_relaxed(&slot->process_clock);
  discovery_search search = {slot, settings, least_us, adopt, owes, false};
  const int result = onstack_task_list_each(discovery_look_at, &search);
  *found |= search.found;
  return result;
}

/* Handlers of the process tick that began before the mark may still be claiming; they wait for nothing but a processor. Returns
   the CPU time that this took. */
static uint64_t discovery_wait_claims(const onstack_slot *slot) {
  const uint64_t before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (slot->process_clock) onstack_threads_wait_outside(&slot->process_clock->inside);
  return onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

/*
 * Gives a timer to threads that have none yet and have used `least_us` of CPU time. The consumer of the slot only. Where
 * nothing but scans finds threads, new ones are found late, and short ones missed.
 *
 * Returns what of the caller's CPU time went into waiting for handlers, in nanoseconds: it is not what a scan costs.
 */
static uint64_t discovery_arm_new(onstack_slot *slot, const onstack_settings *settings, uint32_t least_us) {
  bool found = false;
  if (least_us > 0) {
    /* A process tick that meets a new thread during a scan leaves it to the scan, and has no name for its sample. */
    discovery_look(slot, settings, least_us, false, &found);
    if (!found) return 0;
  }
  const bool may = onstack_threads_scan_begin(slot);
  const uint64_t waited_ns = discovery_wait_claims(slot);
  if (may) discovery_look(slot, settings, least_us, true, &found);
  onstack_threads_scan_end(slot);
  return waited_ns;
}

/*
 * No thread can have come to that age before the process as a whole has used as much. (Their number would not tell: one
 * that ends while another begins leaves it as it was.) An unknown CPU time is no reason to leave threads out.
 */
static bool discovery_wants_scan(onstack_discovery *state) {
  const uint64_t cpu = onstack_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  if (cpu != 0 && cpu - state->scanned_cpu_ns < state->scan_age_ns) return false;
  state->scanned_cpu_ns = cpu;
  return true;
}

/* A scan reads /proc/self/task: some two microseconds a thread; the kernel adds up all threads for the process's CPU time.
   At most a part in `share` of a processor goes into both; time spent in waiting for a processor or a handler is none, or a
   busy machine would let threads come and go between two scans. */
static void discovery_scan(onstack_slot *slot, const onstack_source_round *round, uint32_t share) {
  onstack_discovery *state = &slot->discovery;
  if (round->now_ns < state->next_scan_ns) return;
  const uint64_t before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const bool alone = state->scan_age_ns == 0;
  uint64_t waited = 0;
  if (alone || discovery_wants_scan(state))
    waited = discovery_arm_new(slot, round->settings, (uint32_t)(state->scan_age_ns / 1000u));
  const uint64_t took = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before - waited;
  const uint32_t usual = alone ? DISCOVERY_SCAN_SHARE : DISCOVERY_SCAN_RARE_SHARE;
  const uint64_t pause = took * (share ? share : usual);
  state->next_scan_ns = round->now_ns + (pause > DISCOVERY_SCAN_NS ? pause : DISCOVERY_SCAN_NS);
}

/* ---- a session ---- */

/* Where threads come from lists alone: `listed` is 0, or -errno where they could not be listed, or 1 in the child of a fork,
   where the next scan does that. No process tick stands in for timers that the quota leaves no room for: the session would be
   silent. */
static int discovery_check_listed(onstack_slot *slot, int listed) {
  const onstack_counters *counters = &slot->counters;
  if (listed > 0) return 0;
  if (onstack_task_list_is_foreign()) return ONSTACK_E_CLOCK; /* each timer was refused, as for a thread that has ended */
  const bool silent =
      onstack_load_relaxed(&counters->threads_seen) == 0 && onstack_load_relaxed(&counters->threads_unarmed) > 0;
  return listed == 0 && silent ? ONSTACK_E_CLOCK : listed;
}

int onstack_discovery_start(onstack_slot *slot, const onstack_settings *settings, const onstack_thread_timers *timers) {
  bool found = false;
  slot->timers = timers;
  slot->discovery.hand_on.vain_pause_ns = HAND_ON_PAUSE_NS;
  int result = onstack_action_acquire(slot->signal, settings->on_stack, settings->restore);
  if (result < 0) {
    process_clock_leave(slot);
    onstack_store_relaxed(&slot->process_clock, NULL);
    return result;
  }
  onstack_dekker_store(&slot->state, ONSTACK_SLOT_RUNNING);
  discovery_set_quota();
  /* All threads first: until the slot takes part in process ticks, no handler claims a record, so none is claimed twice. In a
     child of fork there is one thread, which the process tick finds, or the consumer's first scan. */
  const int listed = settings->resumed ? 1 : discovery_look(slot, settings, 0, true, &found);
  result = slot->process_clock ? process_clock_start(slot) : discovery_check_listed(slot, listed);
  if (result < 0) onstack_discovery_stop(slot);
  return result;
}

bool onstack_discovery_tend(onstack_slot *slot, const onstack_source_round *round, uint32_t scan_share) {
  if (!round->runs) return false;
  /* Before the scan: of threads that run it is to take what is left. Nothing is sent to another owner's handler. */
  if (round->on_top && onstack_load_relaxed(&slot->process_clock)) hand_on(slot);
  discovery_scan(slot, round, scan_share);
  if (round->due) {
    onstack_threads_tend(slot);
    onstack_threads_look_for_blocked(slot);
  }
  return slot->discovery.scan_age_ns != 0;
}

void onstack_discovery_stop(onstack_slot *slot) {
  onstack_dekker_store(&slot->state, ONSTACK_SLOT_STOPPING);
  onstack_threads_wait_scanned(slot);
  hand_on_wait_sent(slot);
  process_clock_leave(slot);
  onstack_threads_disarm_all(slot);
  onstack_threads_wait_idle(slot);
  onstack_threads_count_missing(slot);
  if (onstack_action_ends_in_default(slot->signal)) onstack_threads_wait_delivered(slot);
  if (slot->process_clock && slot->process_clock->signal == 0) hand_on_wait_taken(slot); /* no other session takes it */
  onstack_action_release(slot->signal);
  onstack_store_relaxed(&slot->process_clock, NULL);
}
