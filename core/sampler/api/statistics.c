/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a session says about itself: counters, and how the frames in each module were walked. */
#include "sampler/api/statistics.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "profile/report.h"
#include "profile/store/store.h"
#include "profile/text.h"
#include "sampler/api/session.h"
#include "sampler/modules/modules.h"
#include "sampler/signal/owners.h"
#include "sampler/source/source.h"
#include "sampler/source/threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

#define TEXT_MODULES 20u
#define TEXT_PATH ((size_t)4096)
#define TEXT_ESCAPED ((size_t)4) /* bytes that one may become */

typedef struct statistics_text {
  onstack_writer writer;
  void *data;
  uint32_t modules;
  int error;
  char line[TEXT_ESCAPED * TEXT_PATH + 1024];
} statistics_text;

static void text_send(statistics_text *text, int length) {
  ONSTACK_STOP_EXCEPTIONS;
  if (length <= 0 || text->error != 0) return;
  size_t size = (size_t)length < sizeof(text->line) ? (size_t)length : sizeof(text->line) - 1;
  if (text->writer(text->data, text->line, size) != 0) text->error = ONSTACK_E_OUTPUT;
}

/* A line for those that only this source has. */
static void text_write_source(statistics_text *text, const onstack_source *source, const onstack_stats *stats) {
  if (!source->counters[0].key) return;
  int used = snprintf(text->line, sizeof(text->line), "onstack.%s", source->name);
  for (const onstack_source_counter *counter = source->counters; counter->key; counter++) {
    uint64_t value;
    memcpy(&value, (const char *)stats + counter->offset, sizeof(value));
    used += snprintf(text->line + used, sizeof(text->line) - (size_t)used, " %s=%" PRIu64, counter->key, value);
  }
  text->line[used++] = '\n';
  text_send(text, used);
}

static void text_write_counters(statistics_text *text, const onstack_source *source, const onstack_stats *stats) {
  int length =
      snprintf(text->line, sizeof(text->line),
               "onstack.stats ticks=%" PRIu64 " recorded=%" PRIu64 " samples=%" PRIu64 " dropped_ring_full=%" PRIu64
               " dropped_no_stack=%" PRIu64 " dropped_unwinder=%" PRIu64 " dropped_stopping=%" PRIu64
               " dropped_sink=%" PRIu64 " unattributed=%" PRIu64 " truncated=%" PRIu64 " threads_seen=%" PRIu64
               " threads_unarmed=%" PRIu64 " blocked=%" PRIu64 " forwarded=%" PRIu64 " cpu_ns=%" PRIu64 " period=%" PRIu64
               " unit=%s running=%" PRIu32 " clock=%s unwinder=%s reader=%s\n",
               stats->ticks, stats->recorded, stats->samples, stats->dropped_ring_full, stats->dropped_no_stack,
               stats->dropped_unwinder, stats->dropped_stopping, stats->dropped_sink, stats->unattributed, stats->truncated,
               stats->threads_seen, stats->threads_unarmed, stats->blocked, stats->forwarded, stats->cpu_ns, stats->period,
               onstack_unit_name(stats->period_unit), stats->running, stats->clock, stats->unwinder, stats->reader);
  text_send(text, length);
  /* No name: in the child of a fork, whose session it is not. */
  if (stats->clock) text_write_source(text, source, stats);
}

/* A line for all interpreters, where one was met. */
static void text_write_interpreted(statistics_text *text, const onstack_stats *stats) {
  if (stats->interpreted + stats->interpreted_unmatched == 0) return;
  text_send(text,
            snprintf(text->line, sizeof(text->line),
                     "onstack.interpreted samples=%" PRIu64 " interpreted_cut=%" PRIu64 " interpreted_unmatched=%" PRIu64
                     " interpreted_unnamed=%" PRIu64 "\n",
                     stats->interpreted, stats->interpreted_cut, stats->interpreted_unmatched, stats->interpreted_unnamed));
}

/* Whether a character is written as it is. Length 0: it is not UTF-8. */
static bool text_is_plain(const char *character, size_t length) {
  return length > 0 && *character != '\\' && !onstack_profile_utf8_is_obeyed(character, length);
}

/* `out` has room for TEXT_ESCAPED times the length and a NUL. Returns what it is long. */
static size_t text_escape(const char *path, size_t length, char *out) {
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    size_t step = onstack_profile_utf8_length(path + at, length - at);
    if (text_is_plain(path + at, step)) {
      memcpy(out + used, path + at, step);
      used += step;
      at += step;
    } else {
      used += (size_t)snprintf(out + used, TEXT_ESCAPED + 1, "\\%03o", (unsigned char)path[at++]);
    }
  }
  out[used] = 0;
  return used;
}

/* A visitor; non-zero ends the visit. */
static int text_write_module(void *data, const onstack_module_stats *module) {
  statistics_text *text = data;
  size_t size = sizeof(text->line);
  if (module->lost == 0 || text->modules++ == TEXT_MODULES) return 1;
  int used = snprintf(text->line, size, "onstack.module lost=%" PRIu64, module->lost);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++) {
    const char *key = onstack_profile_truncation_key(i);
    if (key && module->lost_by[i] > 0) {
      used += snprintf(text->line + used, size - (size_t)used, " %s=%" PRIu64, key, module->lost_by[i]);
    }
  }
  used += snprintf(text->line + used, size - (size_t)used, " path=");
  used += (int)text_escape(module->path, strnlen(module->path, TEXT_PATH), text->line + used);
  text->line[used++] = '\n';
  text_send(text, used);
  return text->error != 0;
}

static void text_add(onstack_stats *stats, const onstack_statistics_more *more) {
  const uint64_t ticks = more->unattributed + more->weight;
  stats->ticks += ticks;
  stats->unattributed += more->unattributed;
  stats->recorded += more->weight;
  stats->samples += more->samples;
  stats->truncated += more->truncated;
  if (stats->cpu_ns > 0) stats->cpu_ns += ticks * stats->period; /* 0: not a clock that knows */
}

static int text_write(statistics_text *text, onstack_session *session, const onstack_statistics_more *more, bool modules) {
  onstack_stats stats = {.size = sizeof(stats)};
  int error = onstack_session_stats(session, &stats);
  if (error < 0) return error;
  text_add(&stats, more);
  text_write_counters(text, session->settings.source, &stats);
  text_write_interpreted(text, &stats);
  /* Without memory for the modules the counters are worth as much. */
  if (modules && text->error == 0) onstack_session_modules(session, text_write_module, text);
  return text->error;
}

int onstack_statistics_write(onstack_session *session, const onstack_statistics_more *more, bool modules,
                             onstack_writer writer, void *data) {
  if (!session || !writer) return ONSTACK_E_OPTIONS;
  statistics_text *text = malloc(sizeof(*text));
  if (!text) return -ENOMEM;
  text->writer = writer;
  text->data = data;
  text->modules = 0;
  text->error = 0;
  int error = text_write(text, session, more, modules);
  free(text);
  return error;
}

int onstack_session_stats_text(onstack_session *session, onstack_writer writer, void *data) {
  ONSTACK_UNCANCELLED;
  onstack_ours++;
  const onstack_statistics_more none = {.unattributed = 0};
  const int result = onstack_statistics_write(session, &none, true, writer, data);
  onstack_ours--;
  return result;
}
