/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/threads_text.h"

#include "profile/report.h"
#include "profile/truncation.h"
#include "profile/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_NUMBER 32u /* bytes of a number with what stands around it */

typedef struct threads_group {
  const onstack_profile_stack **items; /* by thread id */
  size_t count;
} threads_group;

/* ---- order ---- */

static int threads_compare_stacks(const onstack_profile_stack *a, const onstack_profile_stack *b) {
  if (a->frame_count != b->frame_count) return a->frame_count < b->frame_count ? -1 : 1;
  if (a->head->truncation != b->head->truncation) return a->head->truncation < b->head->truncation ? -1 : 1;
  return memcmp(a->frames, b->frames, a->frame_count * sizeof(*a->frames));
}

static int threads_compare(const void *left, const void *right) {
  const onstack_profile_stack *a = *(const onstack_profile_stack *const *)left;
  const onstack_profile_stack *b = *(const onstack_profile_stack *const *)right;
  const int stacks = threads_compare_stacks(a, b);
  return stacks != 0 ? stacks : (a->head->tid > b->head->tid) - (a->head->tid < b->head->tid);
}

static int threads_compare_groups(const void *left, const void *right) {
  const int32_t a = ((const threads_group *)left)->items[0]->head->tid,
                b = ((const threads_group *)right)->items[0]->head->tid;
  return (a > b) - (a < b);
}

/* ---- lines ---- */

static void threads_put(onstack_profile_output *output, const char *text) {
  onstack_profile_output_put(output, text, strlen(text));
}

/* Names and labels are whatever the program gave. */
static void threads_put_clean(onstack_profile_output *output, const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    const size_t step = onstack_profile_utf8_length(text, left);
    const bool shown = step > 0 && !onstack_profile_utf8_is_obeyed(text, step);
    onstack_profile_output_put(output, shown ? text : "?", shown ? step : 1);
    text += step > 0 ? step : 1;
    left -= step > 0 ? step : 1;
  }
}

void onstack_threads_text_thread(onstack_profile_output *output, int32_t tid, const char *name) {
  char number[THREADS_NUMBER];
  snprintf(number, sizeof(number), "thread %" PRId32 " \"", tid);
  threads_put(output, number);
  threads_put_clean(output, name);
  threads_put(output, "\":");
}

/* Its labels, in their order: the state is the first and needs no key. */
static void threads_put_thread(onstack_profile_output *output, const onstack_profile_stack *thread) {
  onstack_threads_text_thread(output, thread->head->tid, thread->head->thread_name);
  for (uint32_t at = 0; at < thread->head->label_bytes;) {
    const char *key = thread->head->labels + at, *value = key + strlen(key) + 1;
    threads_put(output, " ");
    if (strcmp(key, "state") != 0) {
      threads_put_clean(output, key);
      threads_put(output, "=");
    }
    threads_put_clean(output, value);
    at += (uint32_t)(strlen(key) + strlen(value) + 2);
  }
  threads_put(output, "\n");
}

/* "    transfer at bank.c:41", or with the module where no file is known. */
static void threads_put_line(const onstack_profile_report *report, onstack_profile_output *output,
                             const onstack_profile_line *line, bool named, uint64_t address) {
  const onstack_profile_string *strings = report->symbols.strings.items;
  char number[THREADS_NUMBER];
  threads_put(output, "    ");
  threads_put_clean(output, strings[line->name].text);
  if (line->file != 0) {
    threads_put(output, " at ");
    threads_put_clean(output, strings[line->file].text);
    if (line->line > 0) {
      snprintf(number, sizeof(number), ":%" PRId64, line->line);
      threads_put(output, number);
    }
  } else if (named) {
    const onstack_profile_mapping *mapping = onstack_profile_maps_find(report->view.maps, address);
    if (mapping && mapping->path[0]) {
      threads_put(output, " in ");
      threads_put_clean(output, onstack_profile_mapping_base_name(mapping));
    }
  }
  threads_put(output, "\n");
}

static void threads_put_frame(const onstack_profile_report *report, onstack_profile_output *output, uint32_t number) {
  const onstack_symbol_table *symbols = &report->symbols;
  const onstack_profile_lines_of *lines = &symbols->lines_of[number];
  uint32_t line = lines->first;
  for (; line != ONSTACK_PROFILE_NO_LINE; line = symbols->lines[line].next)
    threads_put_line(report, output, &symbols->lines[line], lines->named, symbols->addresses[number]);
}

static int threads_put_group(const onstack_profile_report *report, onstack_profile_output *output,
                             const threads_group *group) {
  const onstack_profile_stack *stack = group->items[0];
  const char *cut = onstack_profile_truncation_frame(stack->head->truncation);
  threads_put(output, "\n");
  for (size_t i = 0; i < group->count; i++) threads_put_thread(output, group->items[i]);
  for (uint32_t i = 0; i < stack->frame_count; i++) threads_put_frame(report, output, report->numbers[stack->frames[i]]);
  if (cut) {
    threads_put(output, "    ");
    threads_put(output, cut);
    threads_put(output, "\n");
  }
  return output->error;
}

static int threads_write(const onstack_profile_report *report, onstack_profile_output *output) {
  const size_t count = report->view.count;
  const onstack_profile_stack **threads = malloc((count + 1) * sizeof(*threads));
  threads_group *groups = malloc((count + 1) * sizeof(*groups));
  size_t group_count = 0;
  int error = !threads || !groups ? -ENOMEM : 0;
  for (size_t i = 0; error == 0 && i < count; i++) threads[i] = &report->view.items[i];
  if (error == 0) qsort(threads, count, sizeof(*threads), threads_compare);
  for (size_t i = 0; error == 0 && i < count; i++) {
    const bool begins = i == 0 || threads_compare_stacks(threads[i - 1], threads[i]) != 0;
    if (begins) groups[group_count++] = (threads_group){.items = &threads[i]};
    groups[group_count - 1].count++;
  }
  if (error == 0) qsort(groups, group_count, sizeof(*groups), threads_compare_groups);
  for (size_t i = 0; error == 0 && i < group_count; i++) error = threads_put_group(report, output, &groups[i]);
  free(threads);
  free(groups);
  return error;
}

int onstack_threads_text(onstack_profile *profile, const onstack_write_options *given, onstack_profile_output *output) {
  onstack_profile_report report;
  int error = onstack_profile_report_open(&report, profile, given, true);
  if (error != 0) return error;
  error = threads_write(&report, output);
  onstack_profile_report_close(&report);
  return error;
}
