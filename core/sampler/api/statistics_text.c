/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/statistics.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "sampler/source/source.h"
#include "profile/report.h"
#include "profile/store/store.h"
#include "sampler/api/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
