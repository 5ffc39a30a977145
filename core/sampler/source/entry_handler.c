/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal handler: recognizes a tick and has it recorded (record.h), or passes the signal on.
 *
 * Runs with every signal blocked, on the thread's alternate stack where it has one. No lock, no allocation, no libc,
 * errno untouched (raw system calls only). It never waits: each branch ends in a counter.
 */
#include "sampler/signal/owners.h"
#include "sampler/source/arm.h"
#include "sampler/signal/copy.h"
#include "sampler/signal/nesting.h"
#include "sampler/signal/own_threads.h"
#include "platform/context.h"
#include "sampler/source/process_tick.h"
#include "sampler/session/record.h"
#include "sampler/session/slot.h"

#include <sys/prctl.h>

ONSTACK_INTERNAL_DEFINE onstack_slot onstack_slots[ONSTACK_MAX_SESSIONS];

/*
 * Ours is a POSIX timer, or sent as if it were one (discovery.c, wall_signal.c), whose value lies in our thread
 * region. Somebody who sends our cookie by sigqueue has si_code
 * SI_QUEUE; another copy of this library has a region of its own.
 */
static ONSTACK_HANDLER onstack_thread_tick entry_recognize(const siginfo_t *info) {
  if (info->si_code != SI_TIMER) return (onstack_thread_tick){NULL, 0, 0};
  return onstack_thread_from_cookie((uint64_t)(uintptr_t)info->si_value.sival_ptr);
}

static ONSTACK_HANDLER bool entry_has_room(const onstack_slot *slot, const ucontext_t *context) {
  return onstack_has_room(context, slot->stack_bytes);
}

/* Counts ticks; what one sample may not stand for goes to `unattributed`. Returns the weight. */
static ONSTACK_HANDLER uint32_t entry_count_ticks(onstack_slot *slot, uint64_t ticks) {
  /* More than 250 ms of overruns in one sample was a thread that blocked the signal or a clock that jumped: it says
     nothing about the stack of this instant. */
  uint32_t weight = ticks > slot->weight_max ? slot->weight_max : (uint32_t)ticks;
  onstack_add_relaxed(&slot->counters.ticks, ticks);
  if (ticks > weight) {
    onstack_add_relaxed(&slot->counters.unattributed, ticks - weight);
    /* They do not wait any more; without this new threads would weigh nothing until the next look. */
    const uint64_t waiting = onstack_load_relaxed(&slot->counters.waiting);
    onstack_store_relaxed(&slot->counters.waiting, waiting > ticks ? waiting - ticks : 0);
  }
  return weight;
}

/* Compared with what was due when the session stops; wraps. Of the process tick any thread may be the one that counts, one
   at a time: the signal is queued again after its handler has begun. */
static ONSTACK_HANDLER void entry_count_own(onstack_thread *record, const siginfo_t *info) {
  onstack_add_relaxed(&record->timer.ticks, (uint32_t)onstack_ticks_of(info));
}

/* What a thread had used when a scan found it comes with its first tick, as far as nobody else has had it
   (entry_unaccounted). */
static ONSTACK_HANDLER_APART uint64_t entry_take_before(const onstack_slot *slot, onstack_timer *timer) {
  const uint64_t before = onstack_load_relaxed(&timer->before), unaccounted = onstack_process_unaccounted(slot);
  onstack_store_relaxed(&timer->before, (uint16_t)0);
  return unaccounted == UINT64_MAX ? 0 : unaccounted < before ? unaccounted : before;
}

static ONSTACK_HANDLER void entry_thread_tick(onstack_slot *slot, onstack_thread *record, const siginfo_t *info,
                                              ucontext_t *context) {
  onstack_store_relaxed(&record->timer.meetings, (uint8_t)0);
  entry_count_own(record, info);
  if (!entry_has_room(slot, context)) { /* none for what follows either */
    onstack_add_relaxed(&slot->counters.dropped_no_stack, (uint64_t)entry_count_ticks(slot, onstack_ticks_of(info)));
    return;
  }
  const uint64_t before = onstack_load_relaxed(&record->timer.before) ? entry_take_before(slot, &record->timer) : 0;
  const uint32_t weight = entry_count_ticks(slot, onstack_ticks_of(info) + before);
  onstack_process_ticked(slot, onstack_load_relaxed(&slot->counters.ticks));
  if (slot->runnable_ns)
    onstack_runnable_record(slot, record, context); /* first: the last call leaves the stack to the other */
  onstack_record_tick(slot, record, onstack_thread_tid(&slot->threads, record), weight, context, false);
}

/* A thread that has no record yet gets one, with its name and its timer. NULL when its buckets are full. */
static ONSTACK_HANDLER_APART onstack_thread *entry_adopt(onstack_slot *slot, uint32_t tid) {
  uint64_t name[2] = {0, 0};
  onstack_thread *record = onstack_thread_claim(&slot->threads, tid);
  if (!record) return NULL;
  onstack_sys_call2(SYS_prctl, PR_GET_NAME, (long)name); /* writes at most 16 bytes, NUL included */
  onstack_thread_set_name(record, name);
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
  return record;
}

/*
 * How many ticks a thread without a timer stands for when a process tick meets it: those of the process's CPU time that no
 * sample accounts for, and no more than it can have used itself: `age_ns` since its birth (0: it has been met before), and
 * those that this tick brings, `brings_ns`: what the process has used since its last tick, of one kernel tick at most.
 *
 * One for each meeting would be right if process ticks came at random, at the session's own rate. They come each T of the
 * process's CPU time: a thread alone is met half a T after its birth on average and would be half a T too heavy (lives of 20
 * ms: 12 %, measured), and beside others it depends on which processor looks at its timers first. Unaccounted is also what
 * the timers of threads that have ended did not come to tell (after their last kernel tick), and what threads used that no
 * tick has met. So the sum is the process's CPU time. Where threads that block the signal use it up, the second bound holds.
 *
 * Two handlers that ask at the same time may both take the same tick; the next pays.
 */
static inline __attribute__((always_inline)) ONSTACK_HANDLER uint64_t entry_unaccounted(const onstack_slot *slot,
                                                                                        uint64_t brings_ns,
                                                                                        uint64_t age_ns) {
  const uint64_t brings = (brings_ns + slot->period - 1) / slot->period;
  const uint64_t most = brings + age_ns / slot->period;
  const uint64_t unaccounted = onstack_process_unaccounted(slot);
  if (unaccounted == UINT64_MAX) return brings;
  return unaccounted < most ? unaccounted : most;
}

/* A session's process clock has met a thread. Counts that, and finds its record (NULL: it has none), and whether that has a
   timer. False: the thread is one of ours, and nothing is due. */
static ONSTACK_HANDLER bool entry_is_met(onstack_slot *slot, uint32_t tid, onstack_thread **record, bool *armed) {
  onstack_add_relaxed(&slot->counters.process_ticks, (uint64_t)1);
  *record = onstack_thread_find(&slot->threads, tid);
  *armed = *record && onstack_timer_state_of(&(*record)->timer) == ONSTACK_TIMER_ARMED;
  return *record || slot->own_threads || !onstack_own_is((int32_t)tid);
}

/* Where its stack has no room for the session's sample, none for reading clocks either. What was handed on a scan takes later,
   and then all of its time. */
static ONSTACK_HANDLER void entry_meet_without_room(onstack_slot *slot, uint32_t tid, const siginfo_t *info) {
  onstack_thread *record;
  bool armed;
  if (onstack_process_is_handed_on(info)) return;
  if (!entry_is_met(slot, tid, &record, &armed) || armed) return;
  onstack_add_relaxed(&slot->counters.dropped_no_stack, (uint64_t)entry_count_ticks(slot, 1));
}

/* The session looks at the thread, and gives it a timer if it has none. True: it had none. */
static ONSTACK_HANDLER bool entry_meet(onstack_slot *slot, uint32_t tid, uint64_t brings_ns, ucontext_t *context) {
  onstack_thread *record;
  bool armed;
  if (!entry_is_met(slot, tid, &record, &armed)) return false;
  if (armed && !onstack_process_revive(slot, record, tid)) return false;
  uint64_t age_ns = 0;
  if (!record && !onstack_dekker_load(&slot->scanning)) {
    record = entry_adopt(slot, tid);
    if (record)
      onstack_timer_read_clock(onstack_timer_cpu_clock(tid),
                               &age_ns); /* without one it will be new at its next meeting, too */
  }
  uint32_t weight = entry_count_ticks(slot, entry_unaccounted(slot, brings_ns, age_ns));
  if (weight == 0) return true;
  /* With all buckets of this id full the process record lends its (empty) name and bounds. */
  if (!record) record = slot->threads.process;
  onstack_record_tick(slot, record, tid, weight, context, false);
  return true;
}

/* Inside of the clock. */
static ONSTACK_HANDLER void entry_process_tick(onstack_process_clock *clock, const siginfo_t *info, ucontext_t *context) {
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  uint64_t brings_ns = 0; /* until a session has room */
  bool found = false;
  if (!onstack_process_is_handed_on(info)) entry_count_own(clock->record, info);
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_slot *slot = &onstack_slots[i];
    if (onstack_load_relaxed(&slot->process_clock) != clock) continue;
    /* It may tick for others already while a slot is being started; and the slot may be another session's since the look
       above, with another clock. */
    if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING && onstack_observe(&slot->meets) &&
        onstack_load_relaxed(&slot->process_clock) == clock) {
      if (!entry_has_room(slot, context)) {
        entry_meet_without_room(slot, tid, info);
      } else {
        if (brings_ns == 0) brings_ns = onstack_process_brings(clock, info);
        found |= entry_meet(slot, tid, brings_ns, context);
      }
    }
  }
  /* Else it goes on as it is, each period, until it meets a thread with room for the calls. */
  if (brings_ns > 0) onstack_process_met(clock, info, found);
}

static ONSTACK_HANDLER bool entry_is_of(uint32_t generation, onstack_thread_tick tick) {
  return ((generation ^ tick.generation) & (ONSTACK_THREAD_GENERATIONS - 1)) == 0;
}

static ONSTACK_HANDLER bool entry_is_current(uint32_t generation, onstack_thread_tick tick, const siginfo_t *info) {
  return entry_is_of(generation, tick) && onstack_timer_ticks_as(&tick.record->timer, info->si_timerid);
}

/* True if it was a tick of a session that runs, or has not counted its last ones yet. */
static ONSTACK_HANDLER bool entry_session_tick(onstack_slot *slot, onstack_thread_tick tick, const siginfo_t *info,
                                               ucontext_t *context) {
  const uint32_t state = onstack_dekker_load(&slot->state);
  if (!entry_is_current(slot->generation, tick, info)) return false;
  if (state == ONSTACK_SLOT_RUNNING) {
    entry_thread_tick(slot, tick.record, info, context);
  } else if (state == ONSTACK_SLOT_STOPPING) {
    const uint64_t ticks = onstack_ticks_of(info);
    onstack_add_relaxed(&slot->counters.ticks, ticks);
    onstack_add_relaxed(&slot->counters.dropped_stopping, ticks);
    entry_count_own(tick.record, info);
  } else {
    return false;
  }
  return true;
}

static ONSTACK_HANDLER void entry_count_late(int signal, bool taken) {
  if (!taken) onstack_add_relaxed(&onstack_signal_counts[signal].late, (uint64_t)1);
}

/* These two by value and apart, so that the handler's entry keeps no frame of its own below what it goes on to. Each is inside
   before it looks at the state; see slot.h. */
static ONSTACK_HANDLER_APART void entry_thread_timer(onstack_thread_tick tick, int signal, const siginfo_t *info,
                                                     ucontext_t *context) {
  onstack_dekker_add(&tick.record->busy, 1u);
  entry_count_late(signal, entry_session_tick(&onstack_slots[tick.slot], tick, info, context));
  onstack_dekker_sub(&tick.record->busy, 1u);
}

static ONSTACK_HANDLER_APART void entry_process_timer(onstack_thread_tick tick, int signal, const siginfo_t *info,
                                                      ucontext_t *context) {
  onstack_process_clock *clock = &onstack_slots[tick.slot - ONSTACK_MAX_SESSIONS].own_process_clock;
  onstack_inside_enter(&clock->inside,
                       (uint32_t)onstack_sys_gettid()); /* asked again later: that takes no room on the stack */
  const uint32_t generation = onstack_dekker_load(&clock->generation); /* against its end */
  const bool handed_on = onstack_process_is_handed_on(info);
  const bool taken = handed_on ? entry_is_of(generation, tick) : entry_is_current(generation, tick, info);
  entry_count_late(signal, taken);
  if (taken) entry_process_tick(clock, info, context);
  onstack_inside_leave(&clock->inside, (uint32_t)onstack_sys_gettid());
}

static ONSTACK_HANDLER void entry_tick_of(onstack_thread_tick tick, int signal, const siginfo_t *info, ucontext_t *context) {
  if (tick.slot < ONSTACK_MAX_SESSIONS)
    entry_thread_timer(tick, signal, info, context);
  else
    entry_process_timer(tick, signal, info, context);
}

/*
 * In assembly because a mark before a function's entry is nothing that C can say. Local to the object (the single-file
 * build) or hidden. A trampoline keeps no frame, so the walk of a debugger sees onstack_handler_entry called by the
 * kernel; its number goes in the register of a fourth argument, which no caller of a signal handler expects to keep.
 */
#ifdef ONSTACK_SINGLE_FILE
#define ENTRY_SCOPE(name) ""
#else
#define ENTRY_SCOPE(name) ".globl " name "\n.hidden " name "\n"
#endif
/* ONSTACK_TRAMPOLINES of them, ONSTACK_TRAMPOLINE_BYTES apart; the first entry is behind its head. The assembler repeats
   them: written out, they are a longer string than C promises to take. */
__asm__(".pushsection .text\n"
        ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        ".balign 64\n.quad onstack_copy_self - .\n.quad \\number\n.ascii \"" ONSTACK_COPY_MARK "\"\n"
        ".type onstack_trampoline_\\number, %function\nonstack_trampoline_\\number:\n"
        ".cfi_startproc\n" ONSTACK_ARCH_ENTRY_JUMP ".cfi_endproc\n"
        ".size onstack_trampoline_\\number, . - onstack_trampoline_\\number\n"
        ".endr\n" ENTRY_SCOPE(
            "onstack_handler_trampoline") ".set onstack_handler_trampoline, onstack_trampoline_0\n.popsection\n");

/* A tick of this copy that came in through another one's handler. */
static ONSTACK_HANDLER bool entry_take(int signal, siginfo_t *info, void *context) {
  const onstack_thread_tick tick = entry_recognize(info);
  if (!tick.record) return false;
  entry_tick_of(tick, signal, info, context);
  return true;
}

ONSTACK_INTERNAL_DEFINE onstack_copy onstack_copy_self = {
    .bytes = sizeof(onstack_copy),
    .action_bytes = sizeof(onstack_action),
    .actions = onstack_actions,
    .take = entry_take,
    .trampoline = onstack_handler_trampoline,
};

ONSTACK_HANDLER void onstack_handler_go_on(int signal, siginfo_t *info, void *context, uint32_t trampoline) {
  const onstack_thread_tick tick = entry_recognize(info);
  if (tick.record)
    entry_tick_of(tick, signal, info, context);
  else
    onstack_action_forward(signal, info, context, trampoline);
}

/* Where the trampolines lead; `trampoline` is the one that the signal came in by. */
ONSTACK_INTERNAL void onstack_handler_entry(int signal, siginfo_t *info, void *context, uint32_t trampoline);
__attribute__((used)) ONSTACK_HANDLER void onstack_handler_entry(int signal, siginfo_t *info, void *context,
                                                                 uint32_t trampoline) {
  if (onstack_load_relaxed(&onstack_nesting_state.watch)) context = onstack_nesting_enter(signal, info, context, trampoline);
  if (context) onstack_handler_go_on(signal, info, context, trampoline);
}
