/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/columns.h"

#include <string.h>

/* Sessions that share a profile may have periods of their own. */
#define ONSTACK_PROFILE_PERIODS 8u

/* As Go's profiles of the same things have them, where there are such. */
static const struct {
  const char *weight, *value;
} columns_types[ONSTACK_KINDS] = {
    [ONSTACK_KIND_CPU] = {"samples", "cpu"},
    [ONSTACK_KIND_WALL] = {"samples", "wall"},
    [ONSTACK_KIND_ALLOCATION] = {"alloc_objects", "alloc_space"},
    [ONSTACK_KIND_WAIT] = {"contentions", "delay"},
    [ONSTACK_KIND_DUMP] = {NULL, "threads"},
};

/*
 * The functions of allocators, a regular expression in Go's syntax: readers leave them and what they call out, so that a
 * table's first column names who asked for the memory. The frames are in the profile.
 */
static const char columns_allocators[] =
    "(malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|memalign|p?valloc"
    "|operator new(\\[\\])?|onstack_heap_.*|onstack::heap::.*"
    "|<onstack::heap::.*|(__rustc::)?__rust_.*alloc.*|<?alloc::(alloc|raw_vec)::.*)";

static const char *columns_unit_name(onstack_unit unit) {
  return unit == ONSTACK_UNIT_NANOSECONDS ? "nanoseconds" : unit == ONSTACK_UNIT_BYTES ? "bytes" : "count";
}

/* Readers choose a column by its type: there is one of each. */
static uint8_t columns_add(onstack_profile_columns *columns, const char *type, onstack_unit unit) {
  uint32_t i = 0;
  if (!type) return ONSTACK_PROFILE_NO_COLUMN;
  while (i < columns->count && strcmp(columns->items[i].type, type) != 0) i++;
  if (i == columns->count) columns->items[columns->count++] = (onstack_profile_column){type, columns_unit_name(unit)};
  return (uint8_t)i;
}

/* The period of a kind under which most of it was sampled; the samples' values are exact in any case. */
static uint64_t columns_main_period(const onstack_profile_view *view, onstack_kind kind) {
  uint64_t periods[ONSTACK_PROFILE_PERIODS] = {0}, values[ONSTACK_PROFILE_PERIODS] = {0};
  size_t known = 0, best = 0;
  for (size_t i = 0; i < view->count; i++) {
    size_t at = 0;
    if (view->items[i].head->kind != kind) continue;
    while (at < known && periods[at] != view->items[i].head->period) at++;
    if (at == ONSTACK_PROFILE_PERIODS) continue;
    if (at == known) periods[known++] = view->items[i].head->period;
    values[at] += view->items[i].value;
    if (values[at] > values[best]) best = at;
  }
  return periods[best];
}

static void columns_fill(onstack_profile_columns *columns, uint32_t kinds) {
  for (onstack_kind kind = 1; kind < ONSTACK_KINDS; kind++) {
    if (!(kinds & 1u << kind)) continue;
    if (columns->first == 0) columns->first = kind;
    columns->weight[kind] = columns_add(columns, columns_types[kind].weight, ONSTACK_UNIT_COUNT);
    columns->value[kind] = columns_add(columns, columns_types[kind].value, onstack_kind_unit(kind));
    if (kind != ONSTACK_KIND_ALLOCATION) continue;
    columns->held_weight = columns_add(columns, "inuse_objects", ONSTACK_UNIT_COUNT);
    columns->held_value = columns_add(columns, "inuse_space", ONSTACK_UNIT_BYTES);
  }
}

onstack_profile_columns onstack_profile_columns_of(const onstack_profile_report *report) {
  const onstack_profile_view *view = &report->view;
  const onstack_kind empty = report->kind != 0 ? report->kind : ONSTACK_KIND_CPU;
  const uint32_t kinds = view->kinds != 0 ? view->kinds : 1u << empty;
  onstack_profile_columns columns = {
      .count = 0, .held_weight = ONSTACK_PROFILE_NO_COLUMN, .held_value = ONSTACK_PROFILE_NO_COLUMN};
  columns_fill(&columns, kinds);
  const bool heap = columns.first == ONSTACK_KIND_ALLOCATION;
  columns.shown = heap ? columns.held_value : columns.value[columns.first];
  /* Of several kinds, and of allocations, the last would be shown; of the latter that is right, and is said as Go says it. */
  columns.says_shown = (view->kinds & (view->kinds - 1)) != 0 || heap;
  columns.drop_frames = heap ? columns_allocators : NULL;
  columns.period_type = heap ? "space" : columns.items[columns.shown].type;
  columns.period = view->count > 0 ? columns_main_period(view, columns.first) : report->period;
  return columns;
}

/* Ticks, not samples: as in Go's own profiles, the count times the period is the time. */
uint64_t onstack_profile_columns_value(const onstack_profile_columns *columns, const onstack_profile_stack *stack,
                                       uint32_t column) {
  if (column == columns->value[stack->head->kind]) return stack->value;
  if (column == columns->weight[stack->head->kind]) return stack->weight;
  if (column == columns->held_weight) return stack->held_weight; /* 0 but for allocations */
  return column == columns->held_value ? stack->held_value : 0;
}
