/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a session says about itself: counters, and how the frames in each module were walked. */
#include "sampler/api/session.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "profile/text.h"
#include "sampler/modules/modules.h"
#include "sampler/source/source.h"
#include "sampler/source/threads.h"
#include "sampler/signal/owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void session_fill_signal(const onstack_signal_counters *counts, onstack_stats *stats) {
  stats->forwarded = onstack_load_relaxed(&counts->forwarded);
  stats->forwarded_timer = onstack_load_relaxed(&counts->forwarded_timer);
  stats->swallowed = onstack_load_relaxed(&counts->swallowed);
  stats->late = onstack_load_relaxed(&counts->late);
  stats->looped = onstack_load_relaxed(&counts->looped);
}

/* Of one kind. The slot's own events are counted in `ticks` when they come; those of another kind, which must not look like
   CPU time that ticks have told of (sampler/source/process_tick.h), when it is known what became of them. */
static void session_add_kind(const onstack_session *session, onstack_kind kind, onstack_stats *stats) {
  const onstack_lost *lost = &session->slot->lost[kind];
  const onstack_deliver_counters *delivered = &session->delivered[kind];
  const uint64_t recorded = onstack_load_relaxed(&delivered->recorded.weight);
  const uint64_t ring_full = onstack_load_relaxed(&lost->ring_full.weight);
  const uint64_t unwinder = onstack_load_relaxed(&lost->unwinder.weight);
  if (kind != session->slot->kind) stats->ticks += recorded + ring_full + unwinder;
  stats->recorded += recorded;
  stats->samples += onstack_load_relaxed(&delivered->samples);
  stats->delivered += onstack_load_relaxed(&delivered->delivered);
  stats->dropped_ring_full += ring_full;
  stats->dropped_unwinder += unwinder;
  stats->dropped_sink += onstack_load_relaxed(&delivered->refused);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++)
    stats->truncated_by[i] += onstack_load_relaxed(&delivered->truncated_by[i]);
}

void onstack_session_fill_stats(const onstack_session *session, onstack_stats *stats) {
  const onstack_slot *slot = session->slot;
  const onstack_counters *counters = &slot->counters;
  stats->period = session->settings.period;
  stats->period_unit = slot->source->unit;
  stats->ticks = onstack_load_relaxed(&counters->ticks);
  for (onstack_kind kind = 0; kind < ONSTACK_KINDS; kind++) session_add_kind(session, kind, stats);
  stats->unattributed = onstack_load_relaxed(&counters->unattributed);
  stats->dropped_no_stack = onstack_load_relaxed(&counters->dropped_no_stack);
  stats->dropped_stopping = onstack_load_relaxed(&counters->dropped_stopping);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++)
    if (i != ONSTACK_TRUNCATED_NOT) stats->truncated += stats->truncated_by[i];
  stats->threads_seen = onstack_load_relaxed(&counters->threads_seen);
  stats->threads_armed = onstack_threads_count(slot);
  stats->threads_unarmed = onstack_load_relaxed(&counters->threads_unarmed);
  stats->process_ticks = onstack_load_relaxed(&counters->process_ticks);
  if (slot->signal != 0) session_fill_signal(&onstack_signal_counts[slot->signal], stats);
  stats->clock = slot->source->name;
  if (slot->source->fill) slot->source->fill(slot, stats);
  stats->interpreted = onstack_load_relaxed(&session->interpreters.counters.interpreted);
  stats->interpreted_cut = onstack_load_relaxed(&session->interpreters.counters.cut);
  stats->interpreted_unmatched = onstack_load_relaxed(&session->interpreters.counters.unmatched);
  stats->interpreted_unnamed = onstack_load_relaxed(&session->interpreters.counters.unnamed);
  stats->unwinder = session->settings.custom ? session->settings.custom->name : session->settings.unwinder->name;
  stats->reader = slot->reader->name;
  const bool runs = onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING;
  stats->blocked = onstack_load_relaxed(&counters->blocked) + (runs ? onstack_load_relaxed(&counters->waiting) : 0);
}

#define SESSION_STATS_SIZE_0_1 ((size_t)328)
_Static_assert(offsetof(onstack_stats, clock) == SESSION_STATS_SIZE_0_1, "statistics grow at the end");

int onstack_session_stats(const onstack_session *session, onstack_stats *stats) {
  onstack_stats now;
  if (!session || !stats) return ONSTACK_E_OPTIONS;
  onstack_fork_repair();
  memset(&now, 0, sizeof(now));
  if (onstack_observe(&session->finished))
    now = session->last;
  else if (session_is_here(session))
    onstack_session_fill_stats(session, &now);
  now.running = session_is_here(session) && onstack_observe(&session->running);
  return onstack_sized_fill(stats, SESSION_STATS_SIZE_0_1, &now, sizeof(now));
}

static int session_compare_modules(const void *left, const void *right) {
  const onstack_module_stats *a = left, *b = right;
  if (a->lost != b->lost) return a->lost > b->lost ? -1 : 1;
  return strcmp(a->path, b->path);
}

static onstack_module_stats session_module(const onstack_module_statistics_row *row, uint32_t number) {
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
  *count = 1;
  if (!session_lock_consumer(session)) return NULL;
  onstack_module_stats *modules = calloc(session->module_statistics.count + 1, sizeof(*modules));
  *count = modules ? 0 : 1;
  for (uint32_t i = 0; modules && i < session->module_statistics.count; i++) {
    onstack_module_stats module = session_module(&session->module_statistics.rows[i], i);
    if (module.rules + module.go + module.frame_pointer + module.unwinder + module.ended + module.lost > 0)
      modules[(*count)++] = module;
  }
  pthread_mutex_unlock(&session->consumer_lock);
  if (modules) qsort(modules, *count, sizeof(*modules), session_compare_modules);
  return modules;
}

int onstack_session_modules(onstack_session *session, int (*visit)(void *data, const onstack_module_stats *module),
                            void *data) {
  ONSTACK_STOP_EXCEPTIONS;
  ONSTACK_UNCANCELLED;
  uint32_t count;
  int result = 0;
  if (!session || !visit) return ONSTACK_E_OPTIONS;
  onstack_fork_repair();
  if (onstack_session_is_inside()) return ONSTACK_E_CONTEXT;
  /* The lock of a parent's session may look taken in the child of a fork. */
  if (!session_is_here(session) && !onstack_observe(&session->finished)) return ONSTACK_E_CONTEXT;
  onstack_module_stats *modules = session_list_modules(session, &count);
  if (!modules) return -ENOMEM;
  for (uint32_t i = 0; result == 0 && i < count; i++) result = visit(data, &modules[i]);
  free(modules);
  return result;
}

int onstack_session_memory_text(onstack_session *session, const onstack_runtime_memory *runtime, onstack_writer writer,
                                void *data) {
  ONSTACK_UNCANCELLED;
  onstack_stats stats = {.size = sizeof(stats)};
  int result = writer ? 0 : ONSTACK_E_OPTIONS;
  if (result == 0 && session) result = onstack_session_stats(session, &stats);
  if (result < 0) return result;
  onstack_ours++;
  result = onstack_memory_text(stats.heap_in_use, runtime, true, writer, data);
  onstack_ours--;
  return result;
}
