/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/text.h"

#include "platform/calls.h"
#include "profile/report.h"
#include "profile/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Folded stacks. The frames of each stack become ranks of their names, root first; ranks are compared and merged, and
 * text is made only for the lines that are written: names repeat a thousandfold, and the text of all stacks could be
 * many times the profile.
 */

#define ONSTACK_FOLDED_UNNAMED_THREAD "[unnamed thread]"

typedef struct folded_line {
  uint32_t *frames; /* first numbers of `names`, later ranks; root first */
  size_t count;
  uint64_t number;
} folded_line;

typedef struct folded_report {
  const onstack_profile_report *report;
  onstack_profile_strings names; /* as they are written */
  uint32_t *line_names;          /* symbol table's line -> number in `names` */
  uint32_t *order;               /* rank -> number in `names` */
  onstack_profile_arena arena;
  folded_line *lines;
  size_t count;
} folded_report;

/* Adds a name as it is written: the separators are not for names. */
static int folded_add_name(folded_report *folded, const char *text, size_t length, uint32_t *number) {
  if (!memchr(text, ';', length) && !memchr(text, '\n', length) && !memchr(text, '\r', length)) {
    return onstack_profile_strings_add(&folded->names, text, length, number);
  }
  char *clean = malloc(length);
  if (!clean) return -ENOMEM;
  for (size_t i = 0; i < length; i++) {
    clean[i] = text[i] == ';' ? ':' : text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
  }
  int error = onstack_profile_strings_add(&folded->names, clean, length, number);
  free(clean);
  return error;
}

static int folded_add_names(folded_report *folded) {
  const onstack_symbol_table *symbols = &folded->report->symbols;
  folded->line_names = malloc((symbols->line_count + 1) * sizeof(*folded->line_names));
  if (!folded->line_names) return -ENOMEM;
  int error = 0;
  for (size_t i = 0; error == 0 && i < symbols->line_count; i++) {
    const onstack_profile_string *name = &symbols->strings.items[symbols->lines[i].name];
    error = folded_add_name(folded, name->text, name->length, &folded->line_names[i]);
  }
  return error;
}

/* Writes names of a stack's functions from the end of `frames` to its start; returns how many (with NULL: counts). */
static size_t folded_put_functions(const folded_report *folded, const onstack_profile_stack *stack, uint32_t *end) {
  const onstack_symbol_table *symbols = &folded->report->symbols;
  size_t count = 0;
  for (uint32_t i = 0; i < stack->frame_count; i++) {
    uint32_t number = folded->report->numbers[stack->frames[i]];
    uint32_t line = symbols->lines_of[number].first;
    for (; line != ONSTACK_PROFILE_NO_LINE; line = symbols->lines[line].next) {
      count++;
      if (end) *(end - count) = folded->line_names[line];
    }
  }
  return count;
}

/* Of time the ticks, which other tools count too; of anything else what it is measured in. */
static uint64_t folded_number(const onstack_profile_stack *stack) {
  const bool ticks = stack->head->kind == ONSTACK_KIND_CPU || stack->head->kind == ONSTACK_KIND_WALL;
  return ticks ? stack->weight : stack->value;
}

static int folded_add_stack(folded_report *folded, const onstack_profile_stack *stack) {
  uint32_t head[2], head_count = 0;
  int error = 0;
  if (folded->report->view.thread_names) {
    const char *name = stack->head->thread_name[0] != '\0' ? stack->head->thread_name : ONSTACK_FOLDED_UNNAMED_THREAD;
    error = folded_add_name(folded, name, strlen(name), &head[head_count++]);
  }
  const char *cut = onstack_profile_truncation_frame(stack->head->truncation);
  if (error == 0 && cut) error = folded_add_name(folded, cut, strlen(cut), &head[head_count++]);
  if (error != 0) return error;
  folded_line *line = &folded->lines[folded->count];
  line->number = folded_number(stack);
  line->count = head_count + folded_put_functions(folded, stack, NULL);
  line->frames = onstack_profile_arena_take(&folded->arena, line->count * sizeof(*line->frames));
  if (!line->frames) return -ENOMEM;
  for (uint32_t i = 0; i < head_count; i++) line->frames[i] = head[i];
  folded_put_functions(folded, stack, line->frames + line->count);
  folded->count++;
  return 0;
}

static int folded_add_overflow(folded_report *folded, const onstack_profile_stack *overflow) {
  if (overflow->weight == 0) return 0;
  folded_line *line = &folded->lines[folded->count];
  *line = (folded_line){.count = 1, .number = folded_number(overflow)};
  line->frames = onstack_profile_arena_take(&folded->arena, sizeof(*line->frames));
  if (!line->frames) return -ENOMEM;
  folded->count++;
  return folded_add_name(folded, ONSTACK_PROFILE_OVERFLOW_FRAME, strlen(ONSTACK_PROFILE_OVERFLOW_FRAME), line->frames);
}

typedef struct folded_name {
  const char *text;
  uint32_t number;
} folded_name;

/* Names compare as they do in a line, where ';' follows: "f (cold)" comes before "f", since ' ' is below ';'. */
static int folded_compare_names(const void *a, const void *b) {
  const unsigned char *left = (const unsigned char *)((const folded_name *)a)->text;
  const unsigned char *right = (const unsigned char *)((const folded_name *)b)->text;
  while (*left == *right && *left != '\0') left++, right++;
  unsigned char x = *left == '\0' ? ';' : *left, y = *right == '\0' ? ';' : *right;
  return x < y ? -1 : x > y;
}

/* Replaces numbers by ranks, so that stacks compare as numbers do. */
static int folded_rank(folded_report *folded) {
  size_t count = folded->names.count;
  folded_name *sorted = malloc(count * sizeof(*sorted));
  uint32_t *ranks = malloc(count * sizeof(*ranks));
  folded->order = malloc(count * sizeof(*folded->order));
  int error = !sorted || !ranks || !folded->order ? -ENOMEM : 0;
  if (error == 0) {
    for (size_t i = 0; i < count; i++) {
      sorted[i] = (folded_name){.text = folded->names.items[i].text, .number = (uint32_t)i};
    }
    qsort(sorted, count, sizeof(*sorted), folded_compare_names);
    for (size_t i = 0; i < count; i++) {
      folded->order[i] = sorted[i].number;
      ranks[sorted[i].number] = (uint32_t)i;
    }
    for (size_t i = 0; i < folded->count; i++) {
      folded_line *line = &folded->lines[i];
      for (size_t frame = 0; frame < line->count; frame++) line->frames[frame] = ranks[line->frames[frame]];
    }
  }
  free(sorted);
  free(ranks);
  return error;
}

static int folded_compare_lines(const void *a, const void *b) {
  const folded_line *left = a, *right = b;
  size_t common = left->count < right->count ? left->count : right->count;
  for (size_t i = 0; i < common; i++) {
    if (left->frames[i] != right->frames[i]) return left->frames[i] < right->frames[i] ? -1 : 1;
  }
  return left->count < right->count ? -1 : left->count > right->count;
}

static int folded_build(folded_report *folded) {
  const onstack_profile_view *view = &folded->report->view;
  folded->lines = malloc((view->count + ONSTACK_KINDS) * sizeof(*folded->lines));
  if (!folded->lines) return -ENOMEM;
  int error = folded_add_names(folded);
  for (size_t i = 0; error == 0 && i < view->count; i++) error = folded_add_stack(folded, &view->items[i]);
  for (uint32_t i = 0; error == 0 && i < ONSTACK_KINDS; i++) error = folded_add_overflow(folded, &view->overflow[i]);
  if (error == 0) error = folded_rank(folded);
  if (error == 0) qsort(folded->lines, folded->count, sizeof(*folded->lines), folded_compare_lines);
  return error;
}

static int folded_write_lines(const folded_report *folded, onstack_profile_output *output) {
  int error = 0;
  for (size_t i = 0, next; error == 0 && i < folded->count; i = next) {
    const folded_line *line = &folded->lines[i];
    uint64_t sum = 0;
    for (next = i; next < folded->count && folded_compare_lines(line, &folded->lines[next]) == 0; next++) {
      sum += folded->lines[next].number;
    }
    for (size_t frame = 0; frame < line->count; frame++) {
      const onstack_profile_string *name = &folded->names.items[folded->order[line->frames[frame]]];
      if (frame > 0) onstack_profile_output_put(output, ";", 1);
      onstack_profile_output_put(output, name->text, name->length);
    }
    char number[24];
    int length = snprintf(number, sizeof(number), " %" PRIu64 "\n", sum);
    error = onstack_profile_output_put(output, number, (size_t)length);
  }
  return error;
}

static void folded_release(folded_report *folded) {
  onstack_profile_strings_release(&folded->names);
  onstack_profile_arena_release(&folded->arena);
  free(folded->line_names);
  free(folded->order);
  free(folded->lines);
}

static int folded_write(const onstack_profile_report *report, onstack_profile_output *output) {
  folded_report folded = {.report = report};
  if (report->view.kinds & (report->view.kinds - 1)) return ONSTACK_E_KINDS;
  int error = onstack_profile_strings_init(&folded.names);
  if (error == 0) error = folded_build(&folded);
  if (error == 0) error = folded_write_lines(&folded, output);
  folded_release(&folded);
  return error;
}

ONSTACK_API int onstack_profile_write_folded(onstack_profile *profile, const onstack_write_options *options,
                                             onstack_writer writer, void *writer_data) {
  ONSTACK_UNCANCELLED;
  onstack_profile_report report;
  onstack_profile_output output;
  if (!writer) return ONSTACK_E_OPTIONS;
  int error = onstack_profile_report_open(&report, profile, options, true);
  if (error != 0) return error;
  error = onstack_profile_output_open(&output, writer, writer_data);
  if (error == 0) error = onstack_profile_output_close(&output, folded_write(&report, &output));
  onstack_profile_report_close(&report);
  return error;
}

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
