/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The session's life: joins control (who ticks), handler (slots) and drain (where samples go). */
#include "sampler/api/session.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/api/options.h"
#include "sampler/modules/modules.h"
#include "sampler/source/source.h"
#include "sampler/source/threads.h"
#include "profile/generated/generated.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of .eh_frame that are derived at start, where somebody waits (some 10 ms a MiB, once a process; most programs
   have well under one). The consumer does the rest. Without its table a large program would begin every profile with
   stacks that are cut. */
#define SESSION_RULES_AT_START ((size_t)1 << 22)

/* Calls that would wait for themselves: from a sink, from a user's unwinder, or from a handler that interrupted one. */
bool onstack_session_is_inside(void) {
  int32_t self = onstack_sys_gettid();
  return onstack_slots_in_sink(self) || onstack_threads_in_handler(self);
}

/* Modules and stacks as they are now. In a child of fork the parent's stand for them until the consumer has looked. */
static void session_look_around(onstack_session *session) {
  session->tended_ns = session->refreshed_ns = 0;
  session->begun_ns = onstack_monotonic_ns();
  if (session->settings.resumed) return;
  bool now = session->settings.unwinder->needs_rules && !session->settings.at_once;
  onstack_modules_refresh(now ? SESSION_RULES_AT_START : 0);
  session->refreshed_ns = onstack_monotonic_ns();
  session->tended_ns = session->refreshed_ns - (SESSION_TEND_NS - SESSION_FIRST_TEND_NS);
}

/* Drain thread and ticks. On failure the slot is given back. */
static int session_tick(onstack_session *session) {
  onstack_slot *slot = session->slot;
  int result;
  session->drain = (onstack_worker){
      .name = "onstack-drain",
      .wake = &slot->wake,
      .unblocked_signal = session->settings.own_threads ? slot->signal : 0,
      .work = onstack_session_drain_work,
      .data = session,
  };
  session->running = 1;
  session->armed = 0;
  session->rests = false;
  if (session->settings.threads && (result = onstack_worker_start(&session->drain)) < 0) {
    onstack_slot_give_back(slot);
    return result;
  }
  result = slot->source->start(slot, &session->settings);
  if (result == 0) {
    onstack_publish(&session->armed, 1u);
    return 0;
  }
  if (session->settings.threads) onstack_worker_stop(&session->drain);
  onstack_slot_give_back(slot);
  return result;
}

/* Under the control lock. On failure the caller frees the session; nothing else is left. */
static int session_begin(onstack_session *session) {
  int result = onstack_slot_take(&session->settings, &session->slot);
  if (result < 0) return result;
  session->generation = session->slot->generation;
  session_look_around(session);
  result =
      onstack_interpreters_open(&session->interpreters, session->slot, session->settings.depth, session->settings.resumed);
  if (result == 0)
    result = session_tick(session);
  else
    onstack_slot_give_back(session->slot);
  if (result == 0 && session->settings.fork == ONSTACK_FORK_FOLLOW) onstack_publish(&session->slot->follower, session);
  return result;
}

static void session_init_lock(onstack_session *session) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&session->consumer_lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

/*
 * In the child of a fork, on its only thread. What another thread of the parent may have been writing (the module_statistics's
 * rows) is left to itself. Making a thread here is more than POSIX allows and no more than libc can do: glibc and musl have put
 * their allocator and loader in order before child handlers run.
 */
static void session_follow_one(onstack_session *session) {
  session_init_lock(session);
  session->module_statistics = (onstack_module_statistics){0};
  memset(session->delivered, 0, sizeof(session->delivered));
  session->settings.resumed = session->child_is_new = true;
  session->pace = (onstack_pace){.process_cpu_ns = 0}; /* its CPU time begins at 0 */
  if (session_begin(session) < 0) session->running = 0;
}

/* Before any of them begins: several may share a profile, and who has begun uses it. */
static void session_follow_profiles(onstack_session *const sessions[ONSTACK_MAX_SESSIONS]) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++)
    if (sessions[i] && sessions[i]->running && sessions[i]->settings.sink == onstack_profile_sink &&
        !sessions[i]->settings.fork_sink_data)
      onstack_profile_after_fork(sessions[i]->settings.sink_data);
}

static void session_follow(void) {
  onstack_session *sessions[ONSTACK_MAX_SESSIONS];
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    sessions[i] = onstack_slots[i].follower;
    onstack_slots[i].follower = NULL;
  }
  onstack_control_lock(); /* made new by onstack_slots_after_fork; against the drain threads that begin here */
  session_follow_profiles(sessions);
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) /* not those that another thread was just stopping */
    if (sessions[i] && sessions[i]->running) session_follow_one(sessions[i]);
  onstack_control_unlock();
}

static int session_init_unwinder(const onstack_unwinder *custom) {
  ONSTACK_STOP_EXCEPTIONS;
  int result = custom && custom->init ? custom->init(custom->data) : 0;
  if (result == 0) return 0;
  return result < 0 ? result : ONSTACK_E_UNWINDER;
}

static int session_make(const onstack_options *options, bool at_once, onstack_session **out) {
  onstack_settings settings;
  const char *fault;
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  onstack_fork_repair();
  if (onstack_session_is_inside()) return ONSTACK_E_CONTEXT;
  onstack_interpreters_prepare();
  int result = onstack_settings_make(options, &settings, &fault);
  if (result < 0 || (result = session_init_unwinder(settings.custom)) < 0) return result;
  settings.at_once = at_once;
  onstack_session *session = calloc(1, sizeof(*session));
  if (!session) return -ENOMEM;
  session->settings = settings;
  session_init_lock(session);
  if (!onstack_control_lock()) {
    result = ONSTACK_E_CONTEXT;
  } else {
    result = onstack_fork_prepare();
    onstack_fork_set_follow(session_follow);
    if (result == 0) result = session_begin(session);
    onstack_control_unlock();
  }
  if (result < 0) {
    pthread_mutex_destroy(&session->consumer_lock);
    free(session->interpreters.frames);
    free(session);
    return result;
  }
  *out = session;
  return 0;
}

static int session_start(const onstack_options *options, bool at_once, onstack_session **out) {
  pthread_testcancel(); /* while nothing is held: a thread that does nothing but start and stop can be cancelled */
  ONSTACK_UNCANCELLED;
  onstack_ours++;
  const int result = session_make(options, at_once, out);
  onstack_ours--;
  return result;
}

int onstack_session_start(const onstack_options *options, onstack_session **out) {
  return session_start(options, false, out);
}

onstack_kind onstack_session_kind(const onstack_session *session) { return session->settings.source->kind; }

onstack_session_walk onstack_session_walk_of(const onstack_session *session) {
  const onstack_slot *slot = session->slot;
  return (onstack_session_walk){.unwinder = slot->unwinder,
                                .reader = slot->reader,
                                .copy_works = slot->copy_works,
                                .stack_bytes = slot->stack_bytes,
                                .room = &slot->ring.most,
                                .least = slot->ring.least,
                                .weight_max = slot->weight_max,
                                .period_ns = slot->period};
}

int onstack_session_walk_expected(const onstack_options *options, onstack_session_walk *walk) {
  static const uint32_t none;
  onstack_settings settings;
  const char *fault;
  const int result = onstack_settings_make(options, &settings, &fault);
  if (result < 0) return result;
  *walk = (onstack_session_walk){
      .stack_bytes = settings.stack_bytes, .room = &none, .weight_max = settings.weight_max, .period_ns = settings.period};
  walk->reader = onstack_reader_choose(&walk->copy_works);
  if (settings.source->kind != ONSTACK_KIND_CPU) return ONSTACK_E_CLOCK;
  return settings.unwinder->needs_rules && walk->copy_works ? 0 : ONSTACK_E_UNWINDER;
}

int onstack_session_start_at_once(const onstack_options *options, onstack_session **out) {
  return session_start(options, true, out);
}

/* The last samples go to the sink, then the slot is somebody else's. */
static void session_finish(onstack_session *session) {
  onstack_ours++;
  onstack_publish(&session->idle, 1u);
  if (session->settings.threads)
    onstack_worker_stop(&session->drain);
  else
    onstack_session_drain_work(session);
  session->last.size = sizeof(session->last);
  onstack_session_fill_stats(session, &session->last);
  onstack_publish(&session->finished, 1u);
  onstack_ours--;
}

int onstack_session_stop(onstack_session *session) {
  ONSTACK_UNCANCELLED;
  uint32_t expected = 1;
  if (!session) return ONSTACK_E_OPTIONS;
  onstack_fork_repair();
  if (onstack_session_is_inside()) return ONSTACK_E_CONTEXT;
  if (!session_is_here(session)) onstack_store_relaxed(&session->running, 0u);
  if (!onstack_observe(&session->running)) return ONSTACK_E_STOPPED;
  if (!onstack_control_lock()) return ONSTACK_E_CONTEXT;
  if (!onstack_cas(&session->running, &expected, 0u)) {
    onstack_control_unlock();
    return ONSTACK_E_STOPPED;
  }
  onstack_publish(&session->slot->follower, NULL);
  session->slot->source->stop(session->slot);
  onstack_control_unlock();
  /* Without the lock: a sink may be waiting for a thread that starts or stops another session. */
  session_finish(session);
  if (!onstack_control_lock()) return ONSTACK_E_CONTEXT; /* cannot be: we just gave it back */
  onstack_slot_give_back(session->slot);
  onstack_control_unlock();
  return 0;
}

int onstack_session_free(onstack_session *session) {
  ONSTACK_UNCANCELLED;
  if (!session) return 0;
  int result = onstack_session_stop(session);
  if (result < 0 && result != ONSTACK_E_STOPPED) return result;
  /* In the child of a fork the lock may look taken by a thread that is not there; it is left alone. */
  if (session_is_here(session)) pthread_mutex_destroy(&session->consumer_lock);
  onstack_module_statistics_release(&session->module_statistics);
  free(session->interpreters.frames);
  free(session);
  return 0;
}

int onstack_session_poll(onstack_session *session, uint32_t max_samples) {
  ONSTACK_UNCANCELLED;
  if (!session) return ONSTACK_E_OPTIONS;
  onstack_fork_repair();
  if (onstack_session_is_inside()) return ONSTACK_E_CONTEXT;
  if (!session_is_here(session) || !onstack_observe(&session->running)) return ONSTACK_E_STOPPED;
  if (!session_lock_consumer(session)) return ONSTACK_E_STOPPED;
  onstack_ours++;
  uint32_t handed = onstack_observe(&session->running) ? onstack_session_consume(session, max_samples) : 0;
  onstack_ours--;
  pthread_mutex_unlock(&session->consumer_lock);
  return (int)handed;
}
