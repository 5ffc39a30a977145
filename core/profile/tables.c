/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/tables.h"

#include "platform/atomics.h"
#include "platform/interpreted.h"
#include "profile/generated/generated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sample types. */

/* Sessions that share a profile may have periods of their own. */
#define ONSTACK_PROFILE_PERIODS 8u

/* As Go's profiles of the same things have them, where there are such. */
static const struct {
  const char *weight, *value;
} columns_types[ONSTACK_KINDS] = {
    [ONSTACK_KIND_CPU] = {"samples", "cpu"},
    [ONSTACK_KIND_WALL] = {"samples", "wall"},
    [ONSTACK_KIND_ALLOCATION] = {"alloc_objects", "alloc_space"},
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

/* Readers choose a column by its type: there is one of each. */
static uint8_t columns_add(onstack_profile_columns *columns, const char *type, onstack_unit unit) {
  uint32_t i = 0;
  if (!type) return ONSTACK_PROFILE_NO_COLUMN;
  while (i < columns->count && strcmp(columns->items[i].type, type) != 0) i++;
  if (i == columns->count) columns->items[columns->count++] = (onstack_profile_column){type, onstack_unit_name(unit)};
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

/* What samples refer to by number. */

#define TABLES_ENGINE_NAME 80u /* what is longer is cut */
#define ONSTACK_TABLES_OVERFLOW (ONSTACK_TRUNCATION_COUNT + 1)

/* The number of the location that stands for a frame without an address, new or known. */
static uint64_t tables_special(onstack_profile_tables *tables, uint32_t special) {
  uint32_t place = 0;
  while (place < tables->special_count && tables->specials[place] != special) place++;
  if (place == tables->special_count) tables->specials[tables->special_count++] = special;
  return (uint64_t)tables->report->symbols.count + 1 + place;
}

void onstack_profile_tables_add_stack(onstack_profile_tables *tables, const onstack_profile_stack *stack,
                                      onstack_protobuf *numbers) {
  for (uint32_t i = 0; i < stack->frame_count; i++) {
    onstack_protobuf_add_varint(numbers, (uint64_t)tables->report->numbers[stack->frames[i]] + 1);
  }
  if (stack->frame_count == 0) {
    onstack_protobuf_add_varint(numbers, tables_special(tables, ONSTACK_TABLES_OVERFLOW));
  } else if (onstack_profile_truncation_frame(stack->head->truncation)) {
    uint32_t reason =
        stack->head->truncation < ONSTACK_TRUNCATION_COUNT ? stack->head->truncation : ONSTACK_TRUNCATION_COUNT;
    onstack_protobuf_add_varint(numbers, tables_special(tables, reason));
  }
}

const char *onstack_profile_tables_special_name(const onstack_profile_tables *tables, uint32_t place) {
  uint32_t special = tables->specials[place];
  return special == ONSTACK_TABLES_OVERFLOW ? ONSTACK_PROFILE_OVERFLOW_FRAME : onstack_profile_truncation_frame(special);
}

/* Adds a Line to a Location. Equal functions are one. */
static int tables_add_line(onstack_profile_tables *tables, const onstack_profile_line *line, onstack_protobuf *location) {
  onstack_protobuf *function = &tables->function;
  uint32_t number;
  onstack_protobuf_add_number(function, pprof_function_name, line->name);
  onstack_protobuf_add_number(function, pprof_function_system_name, line->system_name);
  onstack_protobuf_add_number(function, pprof_function_filename, line->file);
  onstack_protobuf_add_number(function, pprof_function_start_line, (uint64_t)line->start_line);
  if (function->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&tables->functions, function->bytes, function->used, &number);
  function->used = 0;
  if (error != 0) return error;
  onstack_protobuf_add_number(&tables->line, pprof_line_function_id, number);
  onstack_protobuf_add_number(&tables->line, pprof_line_line, (uint64_t)line->line);
  onstack_protobuf_add_part(location, pprof_location_line, &tables->line);
  return 0;
}

int onstack_profile_tables_add_lines(onstack_profile_tables *tables, const onstack_profile_lines_of *answer,
                                     onstack_profile_table_mapping *mapping, onstack_protobuf *location) {
  const onstack_symbol_table *symbols = &tables->report->symbols;
  int error = 0;
  for (uint32_t at = answer->first; error == 0 && at != ONSTACK_PROFILE_NO_LINE; at = symbols->lines[at].next) {
    const onstack_profile_line *line = &symbols->lines[at];
    error = tables_add_line(tables, line, location);
    if (!mapping || !answer->named) continue;
    mapping->has_functions = true;
    mapping->has_files = mapping->has_files || line->file != 0;
    mapping->has_lines = mapping->has_lines || line->line != 0;
    mapping->has_inlines = mapping->has_inlines || line->next != ONSTACK_PROFILE_NO_LINE;
  }
  return error;
}

int onstack_profile_tables_add_name(onstack_profile_tables *tables, const char *name, onstack_protobuf *location) {
  onstack_profile_line line = {.next = ONSTACK_PROFILE_NO_LINE};
  int error = onstack_profile_strings_add_text(&tables->report->symbols.strings, name, &line.name);
  line.system_name = line.name;
  return error != 0 ? error : tables_add_line(tables, &line, location);
}

onstack_profile_table_mapping *onstack_profile_tables_mapping(const onstack_profile_tables *tables, uint64_t address,
                                                              const onstack_profile_mapping **place) {
  const onstack_profile_maps *maps = tables->report->view.maps;
  *place = onstack_profile_maps_find(maps, address);
  return !*place ? NULL : &tables->mappings[*place - maps->items];
}

uint64_t onstack_profile_tables_real(uint64_t address) {
  return address == ONSTACK_MAPS_UNKNOWN || onstack_is_interpreted(address) ? 0 : address;
}

/* Numbers the mappings that are written: the program first (readers take the first for it), used or not. */
static void tables_number_mappings(onstack_profile_tables *tables) {
  const onstack_profile_maps *maps = tables->report->view.maps;
  const onstack_symbol_table *symbols = &tables->report->symbols;
  for (size_t i = 0; i < symbols->count; i++) {
    const onstack_profile_mapping *place;
    onstack_profile_table_mapping *mapping = onstack_profile_tables_mapping(tables, symbols->addresses[i], &place);
    if (!mapping) continue;
    mapping->number = UINT32_MAX;
    if (mapping->engine == 0) mapping->engine = symbols->lines_of[i].engine;
  }
  for (int others = 0; others <= 1; others++) {
    for (size_t i = 0; i < maps->count; i++) {
      bool other = !maps->items[i].main || maps->items[i].retired;
      if (other != others || (other && tables->mappings[i].number == 0)) continue;
      tables->mapping_order[tables->mapping_count] = (uint32_t)i;
      tables->mappings[i].number = ++tables->mapping_count;
    }
  }
}

/* Of memory without a file: who generated its code, where that is known, or the name that readers know for such. */
static int tables_name_memory(onstack_profile_tables *tables, const onstack_profile_mapping *mapping, uint32_t *name) {
  onstack_profile_strings *strings = &tables->report->symbols.strings;
  const uint32_t engine = tables->mappings[mapping - tables->report->view.maps->items].engine;
  char text[TABLES_ENGINE_NAME];
  if (engine == 0) return onstack_profile_strings_add_text(strings, "//anon", name);
  snprintf(text, sizeof(text), "[generated: %s]", strings->items[engine].text);
  return onstack_profile_strings_add_text(strings, text, name);
}

int onstack_profile_tables_mapping_strings(onstack_profile_tables *tables, const onstack_profile_mapping *mapping,
                                           uint32_t *name, uint32_t *build_id) {
  static const char digits[] = "0123456789abcdef";
  char text[2 * ONSTACK_ELF_BUILD_ID_MAX];
  for (uint32_t i = 0; i < mapping->build_id.length; i++) {
    text[2 * i] = digits[mapping->build_id.bytes[i] >> 4];
    text[2 * i + 1] = digits[mapping->build_id.bytes[i] & 15];
  }
  onstack_profile_strings *strings = &tables->report->symbols.strings;
  int error = mapping->path[0] == '\0' ? tables_name_memory(tables, mapping, name)
                                       : onstack_profile_strings_add_text(strings, mapping->path, name);
  if (error != 0) return error;
  return onstack_profile_strings_add(strings, text, 2 * (size_t)mapping->build_id.length, build_id);
}

int onstack_profile_tables_open(onstack_profile_tables *tables, onstack_profile_report *report) {
  const size_t count = report->view.maps->count;
  *tables = (onstack_profile_tables){.report = report};
  int error = onstack_profile_strings_init(&tables->functions);
  if (error != 0) return error;
  tables->mappings = calloc(count + 1, sizeof(*tables->mappings));
  tables->mapping_order = calloc(count + 1, sizeof(*tables->mapping_order));
  if (!tables->mappings || !tables->mapping_order) return -ENOMEM;
  tables_number_mappings(tables);
  return 0;
}

void onstack_profile_tables_release(onstack_profile_tables *tables) {
  onstack_profile_strings_release(&tables->functions);
  onstack_protobuf_release(&tables->line);
  onstack_protobuf_release(&tables->function);
  free(tables->mappings);
  free(tables->mapping_order);
}
