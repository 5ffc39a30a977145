/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/status.h"

#include "preload/output.h"
#include "profile/string_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_MODULES 20
#define STATUS_ESCAPED 4u /* bytes that one may become */

/* Where the lines go: a file, or memory for the profile's comments. */
typedef struct status_file {
  onstack_writer put;
  void *to;
  onstack_output output;
  uint32_t modules;
  char name[ONSTACK_OUTPUT_NAME];
  char line[STATUS_ESCAPED * ONSTACK_OUTPUT_NAME + 1024];
} status_file;

static void status_write_line(status_file *file, int length) {
  if (length <= 0) return;
  size_t size = (size_t)length < sizeof(file->line) ? (size_t)length : sizeof(file->line) - 1;
  file->put(file->to, file->line, size);
}

static void status_write_counters(status_file *file, const onstack_stats *stats) {
  int length = snprintf(file->line, sizeof(file->line),
                        "onstack.stats ticks=%" PRIu64 " recorded=%" PRIu64 " samples=%" PRIu64 " dropped_ring_full=%" PRIu64
                        " dropped_no_stack=%" PRIu64 " dropped_unwinder=%" PRIu64 " dropped_stopping=%" PRIu64
                        " dropped_sink=%" PRIu64 " unattributed=%" PRIu64 " truncated=%" PRIu64 " threads_seen=%" PRIu64
                        " threads_unarmed=%" PRIu64 " blocked=%" PRIu64 " period_ns=%" PRIu64 " running=%" PRIu32
                        " clock=%s unwinder=%s reader=%s\n",
                        stats->ticks, stats->recorded, stats->samples, stats->dropped_ring_full, stats->dropped_no_stack,
                        stats->dropped_unwinder, stats->dropped_stopping, stats->dropped_sink, stats->unattributed,
                        stats->truncated, stats->threads_seen, stats->threads_unarmed, stats->blocked, stats->period_ns,
                        stats->running, stats->clock, stats->unwinder, stats->reader);
  status_write_line(file, length);
}

/* Reasons by name; those that have no name here are in `lost` alone. */
static const char *const status_reasons[ONSTACK_TRUNCATION_COUNT] = {
    [ONSTACK_TRUNCATED_DEPTH] = "depth",           [ONSTACK_TRUNCATED_UNREADABLE] = "unreadable",
    [ONSTACK_TRUNCATED_MISALIGNED] = "misaligned", [ONSTACK_TRUNCATED_NOT_RISING] = "not_rising",
    [ONSTACK_TRUNCATED_BAD_RETURN] = "bad_return", [ONSTACK_TRUNCATED_STACK_SWITCH] = "stack_switch",
    [ONSTACK_TRUNCATED_BY_DESIGN] = "by_design",   [ONSTACK_TRUNCATED_UNWINDER] = "unwinder",
    [ONSTACK_TRUNCATED_NO_RULE] = "no_rule",       [ONSTACK_TRUNCATED_PENDING] = "pending",
};

/* Whether a character is written as it is: no control character, nothing else that some reader takes for the end of a
   line, no backslash. Length 0: it is not UTF-8. */
static bool status_is_plain(const char *character, size_t length) {
  const unsigned char *byte = (const unsigned char *)character;
  switch (length) {
  case 0:
    return false;
  case 1:
    return byte[0] >= 0x20 && byte[0] != 0x7f && byte[0] != '\\';
  case 2:
    return byte[0] != 0xc2 || byte[1] >= 0xa0; /* U+0080 to U+009F */
  default:
    return memcmp(byte, "\xe2\x80\xa8", 3) != 0 && memcmp(byte, "\xe2\x80\xa9", 3) != 0;
  }
}

/* `out` has room for STATUS_ESCAPED times the length and a NUL. Returns what it is long. */
static size_t status_escape(const char *text, size_t length, char *out) {
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    size_t step = onstack_profile_utf8_length(text + at, length - at);
    if (status_is_plain(text + at, step)) {
      memcpy(out + used, text + at, step);
      used += step;
      at += step;
    } else {
      used += (size_t)snprintf(out + used, STATUS_ESCAPED + 1, "\\%03o", (unsigned char)text[at++]);
    }
  }
  out[used] = 0;
  return used;
}

/* A visitor; non-zero ends the visit. */
static int status_write_module(void *data, const onstack_module_stats *module) {
  status_file *file = data;
  size_t size = sizeof(file->line);
  if (module->lost == 0 || file->modules++ == STATUS_MODULES) return 1;
  int used = snprintf(file->line, size, "onstack.module lost=%" PRIu64, module->lost);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++)
    if (status_reasons[i] && module->lost_by[i] > 0)
      used += snprintf(file->line + used, size - (size_t)used, " %s=%" PRIu64, status_reasons[i], module->lost_by[i]);
  used += snprintf(file->line + used, size - (size_t)used, " path=");
  used += (int)status_escape(module->path, strnlen(module->path, ONSTACK_OUTPUT_NAME), file->line + used);
  file->line[used++] = '\n';
  status_write_line(file, used);
  return 0;
}

static int status_write_lines(status_file *file, onstack_session *session, uint64_t before, bool modules) {
  onstack_stats stats = {.size = sizeof(stats)};
  int error = onstack_session_stats(session, &stats);
  if (error < 0) return error;
  stats.ticks += before;
  stats.unattributed += before;
  file->modules = 0;
  status_write_counters(file, &stats);
  if (modules) onstack_session_modules(session, status_write_module, file);
  return 0;
}

static int status_write(status_file *file, const char *pattern, onstack_session *session, uint64_t before, bool modules) {
  int error = onstack_output_name(pattern, -1, file->name);
  if (error == 0) error = onstack_output_begin(&file->output, file->name);
  if (error < 0) return error;
  file->put = onstack_output_write;
  file->to = &file->output;
  error = status_write_lines(file, session, before, modules);
  int ended = onstack_output_end(&file->output, error == 0);
  return error < 0 ? error : ended;
}

int onstack_status_write(const char *pattern, onstack_session *session, uint64_t before, bool modules) {
  status_file *file = malloc(sizeof(*file));
  int error = file ? status_write(file, pattern, session, before, modules) : -ENOMEM;
  free(file);
  return error;
}

typedef struct status_text {
  char *text;
  size_t length;
  bool failed;
} status_text;

static int status_append(void *data, const void *bytes, size_t length) {
  status_text *into = data;
  char *text = into->failed ? NULL : realloc(into->text, into->length + length + 1);
  into->failed = !text;
  if (!text) return 1;
  memcpy(text + into->length, bytes, length);
  into->length += length;
  text[into->length] = 0;
  into->text = text;
  return 0;
}

char *onstack_status_text(onstack_session *session, uint64_t before, bool modules) {
  status_text into = {0};
  status_file *file = malloc(sizeof(*file));
  if (!file) return NULL;
  file->put = status_append;
  file->to = &into;
  bool whole = status_write_lines(file, session, before, modules) == 0 && !into.failed;
  free(file);
  if (whole) return into.text;
  free(into.text);
  return NULL;
}
