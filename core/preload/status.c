/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/status.h"

#include "preload/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STATUS_MODULES 20

typedef struct status_file {
  onstack_output output;
  uint32_t modules;
  char name[ONSTACK_OUTPUT_NAME];
  char line[ONSTACK_OUTPUT_NAME + 1024];
} status_file;

static void status_write_line(status_file *file, int length) {
  if (length <= 0) return;
  size_t size = (size_t)length < sizeof(file->line) ? (size_t)length : sizeof(file->line) - 1;
  onstack_output_write(&file->output, file->line, size);
}

static void status_write_counters(status_file *file, const onstack_stats *stats) {
  int length = snprintf(
      file->line, sizeof(file->line),
      "onstack.stats ticks=%" PRIu64 " recorded=%" PRIu64 " samples=%" PRIu64 " dropped_ring_full=%" PRIu64
      " dropped_no_stack=%" PRIu64 " dropped_unwinder=%" PRIu64 " dropped_stopping=%" PRIu64 " dropped_sink=%" PRIu64
      " unattributed=%" PRIu64 " truncated=%" PRIu64 " threads_seen=%" PRIu64 " threads_unarmed=%" PRIu64
      " period_ns=%" PRIu64 " running=%" PRIu32 " clock=%s unwinder=%s reader=%s\n",
      stats->ticks, stats->recorded, stats->samples, stats->dropped_ring_full, stats->dropped_no_stack,
      stats->dropped_unwinder, stats->dropped_stopping, stats->dropped_sink, stats->unattributed, stats->truncated,
      stats->threads_seen, stats->threads_unarmed, stats->period_ns, stats->running, stats->clock, stats->unwinder, stats->reader);
  status_write_line(file, length);
}

/* Reasons by name; those that have no name here are in `lost` alone. */
static const char *const status_reasons[ONSTACK_TRUNCATION_COUNT] = {
    [ONSTACK_TRUNCATED_DEPTH] = "depth",
    [ONSTACK_TRUNCATED_UNREADABLE] = "unreadable",
    [ONSTACK_TRUNCATED_MISALIGNED] = "misaligned",
    [ONSTACK_TRUNCATED_NOT_RISING] = "not_rising",
    [ONSTACK_TRUNCATED_BAD_RETURN] = "bad_return",
    [ONSTACK_TRUNCATED_STACK_SWITCH] = "stack_switch",
    [ONSTACK_TRUNCATED_BY_DESIGN] = "by_design",
    [ONSTACK_TRUNCATED_UNWINDER] = "unwinder",
    [ONSTACK_TRUNCATED_NO_RULE] = "no_rule",
};

/* A visitor; non-zero ends the visit. */
static int status_write_module(void *data, const onstack_module_stats *module) {
  status_file *file = data;
  size_t size = sizeof(file->line);
  if (module->lost == 0 || file->modules++ == STATUS_MODULES) return 1;
  int used = snprintf(file->line, size, "onstack.module lost=%" PRIu64, module->lost);
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++)
    if (status_reasons[i] && module->lost_by[i] > 0)
      used += snprintf(file->line + used, size - (size_t)used, " %s=%" PRIu64, status_reasons[i], module->lost_by[i]);
  used += snprintf(file->line + used, size - (size_t)used, " path=%.*s\n", ONSTACK_OUTPUT_NAME, module->path);
  status_write_line(file, used);
  return 0;
}

static int status_write(status_file *file, const char *pattern, onstack_session *session, bool modules) {
  onstack_stats stats = {.size = sizeof(stats)};
  int error = onstack_session_stats(session, &stats);
  if (error == 0) error = onstack_output_name(pattern, -1, file->name);
  if (error == 0) error = onstack_output_begin(&file->output, file->name);
  if (error < 0) return error;
  file->modules = 0;
  status_write_counters(file, &stats);
  if (modules) onstack_session_modules(session, status_write_module, file);
  return onstack_output_end(&file->output, true);
}

int onstack_status_write(const char *pattern, onstack_session *session, bool modules) {
  status_file *file = malloc(sizeof(*file));
  int error = file ? status_write(file, pattern, session, modules) : -ENOMEM;
  free(file);
  return error;
}
