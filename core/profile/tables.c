/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/tables.h"

#include "platform/atomics.h"
#include "platform/interpreted.h"
#include "profile/generated/name_source.h"
#include "profile/truncation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { tables_line_function = 1, tables_line_line = 2 };

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
  const uint32_t field = tables->fields->function_name;
  onstack_protobuf *function = &tables->function;
  uint32_t number;
  onstack_protobuf_add_number(function, field, line->name);
  onstack_protobuf_add_number(function, field + 1, line->system_name);
  onstack_protobuf_add_number(function, field + 2, line->file);
  onstack_protobuf_add_number(function, field + 3, (uint64_t)line->start_line);
  if (function->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&tables->functions, function->bytes, function->used, &number);
  function->used = 0;
  if (error != 0) return error;
  onstack_protobuf_add_number(&tables->line, tables_line_function, number);
  onstack_protobuf_add_number(&tables->line, tables_line_line, (uint64_t)line->line);
  onstack_protobuf_add_part(location, tables->fields->location_line, &tables->line);
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

uint64_t onstack_profile_tables_real(const onstack_profile_mapping *place, uint64_t address) {
  if (place) address = onstack_profile_mapping_real(place, address);
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

int onstack_profile_tables_open(onstack_profile_tables *tables, onstack_profile_report *report,
                                const onstack_profile_table_fields *fields) {
  const size_t count = report->view.maps->count;
  *tables = (onstack_profile_tables){.report = report, .fields = fields};
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
