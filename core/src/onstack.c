/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The session: joins control (who ticks), handler (slots) and drain (where samples go).
 *
 * Locks, outermost first: a session's consumer lock (who empties the ring and tends the threads), the control lock
 * (start, stop), the map lock. Stop takes the control lock without the consumer lock and waits for the drain thread
 * without any lock.
 */
#include "onstack/onstack.h"

#include "base/atomics.h"
#include "base/sys.h"
#include "control/action.h"
#include "control/code_map.h"
#include "control/modules.h"
#include "control/options.h"
#include "control/slots.h"
#include "control/threads.h"
#include "drain/deliver.h"
#include "drain/thread.h"
#include "handler/action.h"
#include "handler/code_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SESSION_TEND_NS 1000000000u  /* reaping, names, stack bounds again */
#define SESSION_STALE_NS 100000000u  /* executable ranges after an unknown return address */
#define SESSION_WANTED_NS 10000000u  /* stack bounds that a record asks for */

#define SESSION_SCAN_NS 10000000u       /* for new threads, on kernels whose process tick does not find them */
#define SESSION_LOOK_BUSY_NS 10000000u  /* between two rounds of the drain thread while the process works */
#define SESSION_LOOK_IDLE_NS 50000000u  /* and while it sleeps */
#define SESSION_BUSY_NS 500000u         /* of CPU time since the last round; our own rounds take less */

/* Bytes of .eh_frame that are derived in one go: at start, where somebody waits (some 10 ms a MiB, once a process; most
   programs have well under one), and by the consumer, for the giants. Without its table a large program would begin every
   profile with stacks that are cut. */
#define SESSION_RULES_AT_START ((size_t)1 << 22)
#define SESSION_RULES_BUDGET ((size_t)1 << 24)

struct onstack_session {
  onstack_settings settings;
  onstack_slot *slot;
  uint32_t generation; /* of the slot while it is this session's; another one: a child of fork */
  uint32_t running;    /* 1 until somebody stops it */
  onstack_drain_thread drain;
  pthread_mutex_t consumer_lock;
  onstack_deliver_counters delivered; /* written by the consumer */
  onstack_tally tally;                /* under the consumer lock */
  uint64_t tended_ns, refreshed_ns;   /* consumer only */
  uint64_t process_cpu_ns, judged_ns; /* at the last judgement whether the process works; consumer only */
  bool needs_scan;                    /* for new threads; see onstack_threads_need_scan */
  uint64_t next_scan_ns;              /* consumer only */
  uint32_t finished;                  /* `last` is valid (publish / observe) */
  onstack_stats last;                 /* what stop saw */
};

static uint64_t session_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Calls that would wait for themselves: from a sink, from a user's unwinder, or from a handler that interrupted one. */
static bool session_is_inside(void) {
  int32_t self = onstack_sys_gettid();
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++)
    if (onstack_load_relaxed(&onstack_slots[i].sink_tid) == self) return true;
  return onstack_threads_in_handler(self);
}

/* True while the slot belongs to this session in this process (not in the child of a fork). */
static bool session_is_here(const onstack_session *session) {
  return onstack_load_relaxed(&session->slot->generation) == session->generation;
}

/* A scan reads /proc/self/task: some two microseconds a thread. At most a twentieth of a processor goes into it. */
static void session_scan(onstack_session *session, uint64_t now) {
  if (!session->needs_scan || now < session->next_scan_ns) return;
  onstack_threads_arm_new(session->slot);
  uint64_t took = session_now_ns() - now;
  session->next_scan_ns = now + (took * 20 > SESSION_SCAN_NS ? took * 20 : SESSION_SCAN_NS);
}

/* What the handler may not do itself. Under the consumer lock. */
static void session_tend(onstack_session *session) {
  onstack_slot *slot = session->slot;
  uint64_t now = session_now_ns();
  onstack_modules_refresh(session->settings.unwinder->needs_rules ? SESSION_RULES_BUDGET : 0);
  session_scan(session, now);
  bool due = now - session->tended_ns >= SESSION_TEND_NS;
  if (onstack_control_try_lock()) {
    onstack_action_tend(session->settings.signal);
    if (due) onstack_action_calm(session->settings.signal);
    onstack_control_unlock();
  }
  if (due) {
    session->tended_ns = now;
    onstack_threads_tend(slot);
  }
  bool stale = onstack_load_relaxed(&onstack_code.stale) && now - session->refreshed_ns >= SESSION_STALE_NS;
  bool wanted = onstack_load_relaxed(&slot->wanted) && now - session->refreshed_ns >= SESSION_WANTED_NS;
  if (!due && !stale && !wanted) return;
  onstack_code_map_refresh(slot);
  session->refreshed_ns = session_now_ns();
}

static uint32_t session_consume(onstack_session *session, uint32_t max) {
  uint32_t handed =
      onstack_deliver(session->slot, session->settings.sink, session->settings.sink_data, max, &session->delivered,
                      &session->tally);
  /* A sink that forked and returned in the child: nothing here is ours any more. */
  if (session_is_here(session) && onstack_observe(&session->running)) session_tend(session);
  return handed;
}

/* A newer owner's handler is to be noticed within 10 ms, but only where there is CPU time that it could take from us:
   an idle process is left asleep. */
static uint64_t session_next_look(onstack_session *session) {
  uint64_t now = session_now_ns();
  /* A round that a sample's wish brought early saw too little time to judge by. */
  if (now - session->judged_ns < SESSION_LOOK_BUSY_NS) return SESSION_LOOK_BUSY_NS;
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  uint64_t cpu = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
  bool busy = cpu - session->process_cpu_ns > SESSION_BUSY_NS;
  session->process_cpu_ns = cpu;
  session->judged_ns = now;
  return busy ? SESSION_LOOK_BUSY_NS : SESSION_LOOK_IDLE_NS;
}

static uint64_t session_drain_work(void *data) {
  onstack_session *session = data;
  if (!session_is_here(session)) {
    onstack_publish(&session->drain.quit, 1u);
    return SESSION_LOOK_IDLE_NS;
  }
  pthread_mutex_lock(&session->consumer_lock);
  while (session_consume(session, 0) > 0 && onstack_ring_front(&session->slot->ring)) continue;
  uint64_t pause = session_next_look(session);
  pthread_mutex_unlock(&session->consumer_lock);
  return pause;
}

static void session_fill_stats(const onstack_session *session, onstack_stats *stats) {
  const onstack_slot *slot = session->slot;
  const onstack_counters *counters = &slot->counters;
  const onstack_action *action = &onstack_actions[session->settings.signal];
  stats->period_ns = session->settings.period_ns;
  stats->ticks = onstack_load_relaxed(&counters->ticks);
  stats->recorded = onstack_load_relaxed(&session->delivered.recorded);
  stats->samples = onstack_load_relaxed(&session->delivered.samples);
  stats->delivered = onstack_load_relaxed(&session->delivered.delivered);
  stats->unattributed = onstack_load_relaxed(&counters->unattributed);
  stats->dropped_ring_full = onstack_load_relaxed(&counters->dropped_ring_full);
  stats->dropped_no_stack = onstack_load_relaxed(&counters->dropped_no_stack);
  stats->dropped_unwinder = onstack_load_relaxed(&counters->dropped_unwinder);
  stats->dropped_stopping = onstack_load_relaxed(&counters->dropped_stopping);
  stats->dropped_sink = onstack_load_relaxed(&session->delivered.refused);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++) {
    stats->truncated_by[i] = onstack_load_relaxed(&session->delivered.truncated_by[i]);
    if (i != ONSTACK_TRUNCATED_NOT) stats->truncated += stats->truncated_by[i];
  }
  stats->threads_seen = onstack_load_relaxed(&counters->threads_seen);
  stats->threads_armed = onstack_threads_count(slot);
  stats->threads_unarmed = onstack_load_relaxed(&counters->threads_unarmed);
  stats->process_ticks = onstack_load_relaxed(&counters->process_ticks);
  stats->forwarded = onstack_load_relaxed(&action->forwarded);
  stats->forwarded_timer = onstack_load_relaxed(&action->forwarded_timer);
  stats->swallowed = onstack_load_relaxed(&action->swallowed);
  stats->late = onstack_load_relaxed(&action->late);
  stats->looped = onstack_load_relaxed(&action->looped);
  stats->unwinder = session->settings.custom ? session->settings.custom->name : session->settings.unwinder->name;
  stats->reader = slot->reader->name;
}

/* Under the control lock. On failure the caller frees the session; nothing else is left. */
static int session_begin(onstack_session *session) {
  int result = onstack_slot_take(&session->settings, &session->slot);
  if (result < 0) return result;
  onstack_modules_refresh(session->settings.unwinder->needs_rules ? SESSION_RULES_AT_START : 0);
  onstack_slot *slot = session->slot;
  session->generation = slot->generation;
  session->tended_ns = session->refreshed_ns = session_now_ns();
  session->drain = (onstack_drain_thread){
      .wake = &slot->wake,
      .tid = &slot->drain_tid,
      .unblocked_signal = session->settings.own_threads ? session->settings.signal : 0,
      .work = session_drain_work,
      .data = session,
  };
  session->running = 1;
  session->needs_scan = onstack_threads_need_scan();
  if (session->settings.threads && (result = onstack_drain_thread_start(&session->drain)) < 0) {
    onstack_slot_give_back(slot);
    return result;
  }
  result = onstack_slot_run(slot, &session->settings);
  if (result == 0) return 0;
  if (session->settings.threads) onstack_drain_thread_stop(&session->drain);
  onstack_slot_give_back(slot);
  return result;
}

static int session_init_unwinder(const onstack_unwinder *custom) {
  int result = custom && custom->init ? custom->init(custom->data) : 0;
  if (result == 0) return 0;
  return result < 0 ? result : ONSTACK_E_UNWINDER;
}

int onstack_session_start(const onstack_options *options, onstack_session **out) {
  onstack_settings settings;
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  if (session_is_inside()) return ONSTACK_E_CONTEXT;
  int result = onstack_options_settle(options, &settings);
  if (result < 0 || (result = session_init_unwinder(settings.custom)) < 0) return result;
  onstack_session *session = calloc(1, sizeof(*session));
  if (!session) return -ENOMEM;
  session->settings = settings;
  pthread_mutex_init(&session->consumer_lock, NULL);
  if (!onstack_control_lock()) {
    result = ONSTACK_E_CONTEXT;
  } else {
    result = session_begin(session);
    onstack_control_unlock();
  }
  if (result < 0) {
    pthread_mutex_destroy(&session->consumer_lock);
    free(session);
    return result;
  }
  *out = session;
  return 0;
}

/* The last samples go to the sink, then the slot is somebody else's. */
static void session_finish(onstack_session *session) {
  if (session->settings.threads)
    onstack_drain_thread_stop(&session->drain);
  else
    session_drain_work(session);
  session->last.size = sizeof(session->last);
  session_fill_stats(session, &session->last);
  onstack_publish(&session->finished, 1u);
}

int onstack_session_stop(onstack_session *session) {
  uint32_t expected = 1;
  if (!session) return ONSTACK_E_OPTIONS;
  if (session_is_inside()) return ONSTACK_E_CONTEXT;
  if (!session_is_here(session)) onstack_store_relaxed(&session->running, 0u);
  if (!onstack_observe(&session->running)) return ONSTACK_E_STOPPED;
  if (!onstack_control_lock()) return ONSTACK_E_CONTEXT;
  if (!onstack_cas(&session->running, &expected, 0u)) {
    onstack_control_unlock();
    return ONSTACK_E_STOPPED;
  }
  onstack_slot_quiet(session->slot, &session->settings);
  onstack_control_unlock();
  /* Without the lock: a sink may be waiting for a thread that starts or stops another session. */
  session_finish(session);
  if (!onstack_control_lock()) return ONSTACK_E_CONTEXT; /* cannot be: we just gave it back */
  onstack_slot_give_back(session->slot);
  onstack_control_unlock();
  return 0;
}

int onstack_session_free(onstack_session *session) {
  if (!session) return 0;
  int result = onstack_session_stop(session);
  if (result < 0 && result != ONSTACK_E_STOPPED) return result;
  /* In the child of a fork the lock may look taken by a thread that is not there; it is left alone. */
  if (session_is_here(session)) pthread_mutex_destroy(&session->consumer_lock);
  onstack_tally_release(&session->tally);
  free(session);
  return 0;
}

int onstack_session_poll(onstack_session *session, uint32_t max_samples) {
  if (!session) return ONSTACK_E_OPTIONS;
  if (session_is_inside()) return ONSTACK_E_CONTEXT;
  if (!session_is_here(session) || !onstack_observe(&session->running)) return ONSTACK_E_STOPPED;
  pthread_mutex_lock(&session->consumer_lock);
  uint32_t handed = onstack_observe(&session->running) ? session_consume(session, max_samples) : 0;
  pthread_mutex_unlock(&session->consumer_lock);
  return (int)handed;
}

#define SESSION_STATS_SIZE_0_1 ((size_t)320)
_Static_assert(sizeof(onstack_stats) == SESSION_STATS_SIZE_0_1, "statistics grow at the end");

int onstack_session_stats(const onstack_session *session, onstack_stats *stats) {
  onstack_stats now;
  if (!session || !stats || stats->size < SESSION_STATS_SIZE_0_1) return ONSTACK_E_OPTIONS;
  memset(&now, 0, sizeof(now));
  if (onstack_observe(&session->finished))
    now = session->last;
  else if (session_is_here(session))
    session_fill_stats(session, &now);
  now.running = session_is_here(session) && onstack_observe(&session->running);
  /* A caller with a newer header gets zeros for what this library does not know. */
  uint32_t size = stats->size;
  memset(stats, 0, size);
  memcpy(stats, &now, size < sizeof(now) ? size : sizeof(now));
  stats->size = (uint32_t)(size < sizeof(now) ? size : sizeof(now));
  return 0;
}

static int session_compare_modules(const void *left, const void *right) {
  const onstack_module_stats *a = left, *b = right;
  if (a->lost != b->lost) return a->lost > b->lost ? -1 : 1;
  return strcmp(a->path, b->path);
}

static onstack_module_stats session_module(const onstack_tally_row *row, uint32_t number) {
  onstack_module_stats module = {.size = sizeof(module), .path = onstack_modules_path(number)};
  module.rules = row->by[ONSTACK_BY_RULES];
  module.go = row->by[ONSTACK_BY_GO];
  module.frame_pointer = row->by[ONSTACK_BY_RECORD];
  module.unwinder = row->by[ONSTACK_BY_UNWINDER];
  module.ended = row->by[ONSTACK_BY_NOTHING];
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++) module.lost += module.lost_by[i] = row->lost_by[i];
  return module;
}

/* The modules that samples were in, sorted; the caller frees them. NULL with *count 0: none, or no memory (*count 1). */
static onstack_module_stats *session_list_modules(onstack_session *session, uint32_t *count) {
  pthread_mutex_lock(&session->consumer_lock);
  onstack_module_stats *modules = calloc(session->tally.count + 1, sizeof(*modules));
  *count = modules ? 0 : 1;
  for (uint32_t i = 0; modules && i < session->tally.count; i++) {
    onstack_module_stats module = session_module(&session->tally.rows[i], i);
    if (module.rules + module.go + module.frame_pointer + module.unwinder + module.ended + module.lost > 0)
      modules[(*count)++] = module;
  }
  pthread_mutex_unlock(&session->consumer_lock);
  if (modules) qsort(modules, *count, sizeof(*modules), session_compare_modules);
  return modules;
}

int onstack_session_modules(onstack_session *session, int (*visit)(void *data, const onstack_module_stats *module),
                            void *data) {
  uint32_t count;
  int result = 0;
  if (!session || !visit) return ONSTACK_E_OPTIONS;
  if (session_is_inside()) return ONSTACK_E_CONTEXT;
  /* The lock of a parent's session may look taken in the child of a fork. */
  if (!session_is_here(session) && !onstack_observe(&session->finished)) return ONSTACK_E_CONTEXT;
  onstack_module_stats *modules = session_list_modules(session, &count);
  if (!modules) return -ENOMEM;
  for (uint32_t i = 0; result == 0 && i < count; i++) result = visit(data, &modules[i]);
  free(modules);
  return result;
}
