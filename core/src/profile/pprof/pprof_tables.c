/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/pprof/pprof_writer.h"

#include "base/atomics.h"
#include "profile/elf/symbolize.h"
#include "profile/pprof/pprof_fields.h"
#include "profile/truncation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t pprof_function_hash(const onstack_pprof_function *function) {
  uint64_t hash = onstack_profile_hash_word(function->name, function->system_name);
  hash = onstack_profile_hash_word(hash, function->file);
  return onstack_profile_hash_fold(onstack_profile_hash_word(hash, (uint64_t)function->start_line));
}

static bool pprof_function_equal(const void *owner, uint32_t item, const void *key) {
  const onstack_pprof_function *have = &((const onstack_pprof_writer *)owner)->functions[item];
  const onstack_pprof_function *want = key;
  return have->name == want->name && have->system_name == want->system_name && have->file == want->file &&
         have->start_line == want->start_line;
}

/* Sets the number of a function, new or known. Errors: -ENOMEM. */
static int pprof_function_number(onstack_pprof_writer *writer, const onstack_pprof_function *function, uint64_t *number) {
  uint32_t hash = pprof_function_hash(function);
  uint32_t item = onstack_profile_hash_find(&writer->function_index, hash, pprof_function_equal, writer, function);
  if (item == ONSTACK_PROFILE_HASH_NONE) {
    if (writer->function_count >= UINT32_MAX - 1 || onstack_profile_hash_reserve(&writer->function_index) != 0) {
      return -ENOMEM;
    }
    void *functions =
        onstack_profile_grow(writer->functions, &writer->function_capacity, writer->function_count + 1, sizeof(*function));
    if (!functions) return -ENOMEM;
    writer->functions = functions;
    item = (uint32_t)writer->function_count++;
    writer->functions[item] = *function;
    onstack_profile_hash_insert(&writer->function_index, hash, item);
  }
  *number = (uint64_t)item + 1;
  return 0;
}

/* Adds a Line to the Location in writer->message. */
static int pprof_add_line(onstack_pprof_writer *writer, const onstack_pprof_function *function, int64_t line) {
  uint64_t number;
  int error = pprof_function_number(writer, function, &number);
  if (error != 0) return error;
  onstack_pprof_add_number(&writer->part, pprof_line_function_id, number);
  onstack_pprof_add_number(&writer->part, pprof_line_line, (uint64_t)line);
  onstack_pprof_add_part(&writer->message, pprof_location_line, &writer->part);
  return 0;
}

static int pprof_add_lines(onstack_pprof_writer *writer, const onstack_profile_answer *answer,
                           onstack_pprof_mapping *mapping) {
  const onstack_symbol_table *symbols = &writer->report->symbols;
  int error = 0;
  for (uint32_t at = answer->first; error == 0 && at != ONSTACK_PROFILE_NO_LINE; at = symbols->lines[at].next) {
    const onstack_profile_line *line = &symbols->lines[at];
    onstack_pprof_function function = {
        .name = line->name, .system_name = line->system_name, .file = line->file, .start_line = line->start_line};
    error = pprof_add_line(writer, &function, line->line);
    if (!mapping || !answer->named) continue;
    mapping->has_functions = true;
    mapping->has_files = mapping->has_files || line->file != 0;
    mapping->has_lines = mapping->has_lines || line->line != 0;
    mapping->has_inlines = mapping->has_inlines || line->next != ONSTACK_PROFILE_NO_LINE;
  }
  return error;
}

static onstack_pprof_mapping *pprof_find_mapping(const onstack_pprof_writer *writer, uint64_t address) {
  const onstack_profile_maps *maps = writer->report->view.maps;
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  return !mapping ? NULL : &writer->mappings[mapping - maps->items];
}

static int pprof_write_location(onstack_pprof_writer *writer, uint32_t number) {
  const onstack_symbol_table *symbols = &writer->report->symbols;
  uint64_t address = symbols->addresses[number];
  const onstack_profile_mapping *place = onstack_profile_maps_find(writer->report->view.maps, address);
  onstack_pprof_mapping *mapping = pprof_find_mapping(writer, address);
  onstack_pprof_add_number(&writer->message, pprof_location_id, (uint64_t)number + 1);
  if (mapping) onstack_pprof_add_number(&writer->message, pprof_location_mapping_id, mapping->number);
  if (place) address = onstack_profile_mapping_real(place, address);
  onstack_pprof_add_number(&writer->message, pprof_location_address, address == ONSTACK_MAPS_UNKNOWN ? 0 : address);
  int error = pprof_add_lines(writer, &symbols->answers[number], mapping);
  return error != 0 ? error : onstack_pprof_send(writer, pprof_profile_location);
}

uint64_t onstack_pprof_special(onstack_pprof_writer *writer, uint32_t special) {
  uint32_t place = 0;
  while (place < writer->special_count && writer->specials[place] != special) place++;
  if (place == writer->special_count) writer->specials[writer->special_count++] = special;
  return (uint64_t)writer->report->symbols.count + 1 + place;
}

static int pprof_write_special(onstack_pprof_writer *writer, uint32_t special) {
  const char *name =
      special == ONSTACK_PPROF_SPECIAL_OVERFLOW ? ONSTACK_PROFILE_OVERFLOW_FRAME : onstack_profile_truncation_frame(special);
  onstack_pprof_function function = {0};
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, name, &function.name);
  if (error != 0) return error;
  function.system_name = function.name;
  onstack_pprof_add_number(&writer->message, pprof_location_id, onstack_pprof_special(writer, special));
  error = pprof_add_line(writer, &function, 0);
  return error != 0 ? error : onstack_pprof_send(writer, pprof_profile_location);
}

static int pprof_write_functions(onstack_pprof_writer *writer) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < writer->function_count; i++) {
    const onstack_pprof_function *function = &writer->functions[i];
    onstack_pprof_add_number(&writer->message, pprof_function_id, i + 1);
    onstack_pprof_add_number(&writer->message, pprof_function_name, function->name);
    onstack_pprof_add_number(&writer->message, pprof_function_system_name, function->system_name);
    onstack_pprof_add_number(&writer->message, pprof_function_filename, function->file);
    onstack_pprof_add_number(&writer->message, pprof_function_start_line, (uint64_t)function->start_line);
    error = onstack_pprof_send(writer, pprof_profile_function);
  }
  return error;
}

/* Numbers the mappings that are written: the program first (readers take the first for it), used or not. */
static void pprof_number_mappings(onstack_pprof_writer *writer) {
  const onstack_profile_maps *maps = writer->report->view.maps;
  const onstack_symbol_table *symbols = &writer->report->symbols;
  uint32_t number = 0;
  for (size_t i = 0; i < symbols->count; i++) {
    onstack_pprof_mapping *mapping = pprof_find_mapping(writer, symbols->addresses[i]);
    if (mapping) mapping->number = UINT32_MAX;
  }
  for (size_t i = 0; i < maps->count; i++) {
    if (maps->items[i].main && !maps->items[i].retired) writer->mappings[i].number = ++number;
  }
  for (size_t i = 0; i < maps->count; i++) {
    if (writer->mappings[i].number == UINT32_MAX) writer->mappings[i].number = ++number;
  }
}

/* The name that readers know for memory without a file, unless whoever knows its code says another. */
static const char *pprof_name_memory(void) {
  const onstack_code_source *source = onstack_load_relaxed(&onstack_profile_code_source);
  return source && source->mapping ? source->mapping : "//anon";
}

static int pprof_mapping_strings(onstack_pprof_writer *writer, const onstack_profile_mapping *mapping, uint32_t *path,
                                 uint32_t *build_id) {
  static const char digits[] = "0123456789abcdef";
  char text[2 * ONSTACK_ELF_BUILD_ID_MAX];
  for (uint32_t i = 0; i < mapping->build_id.length; i++) {
    text[2 * i] = digits[mapping->build_id.bytes[i] >> 4];
    text[2 * i + 1] = digits[mapping->build_id.bytes[i] & 15];
  }
  const char *name = mapping->path[0] != '\0' ? mapping->path : pprof_name_memory();
  onstack_profile_strings *strings = &writer->report->symbols.strings;
  int error = onstack_profile_strings_add_text(strings, name, path);
  if (error != 0) return error;
  return onstack_profile_strings_add(strings, text, 2 * (size_t)mapping->build_id.length, build_id);
}

static int pprof_write_mapping(onstack_pprof_writer *writer, size_t item) {
  const onstack_profile_mapping *mapping = &writer->report->view.maps->items[item];
  const onstack_pprof_mapping *known = &writer->mappings[item];
  onstack_pprof_message *message = &writer->message;
  uint32_t path, build_id;
  int error = pprof_mapping_strings(writer, mapping, &path, &build_id);
  if (error != 0) return error;
  onstack_pprof_add_number(message, pprof_mapping_id, known->number);
  onstack_pprof_add_number(message, pprof_mapping_memory_start, mapping->real);
  onstack_pprof_add_number(message, pprof_mapping_memory_limit, onstack_profile_mapping_real(mapping, mapping->limit));
  onstack_pprof_add_number(message, pprof_mapping_file_offset, mapping->offset);
  onstack_pprof_add_number(message, pprof_mapping_filename, path);
  onstack_pprof_add_number(message, pprof_mapping_build_id, build_id);
  onstack_pprof_add_number(message, pprof_mapping_has_functions, known->has_functions);
  onstack_pprof_add_number(message, pprof_mapping_has_filenames, known->has_files);
  onstack_pprof_add_number(message, pprof_mapping_has_line_numbers, known->has_lines);
  onstack_pprof_add_number(message, pprof_mapping_has_inline_frames, known->has_inlines);
  return onstack_pprof_send(writer, pprof_profile_mapping);
}

/* In the order of their numbers: the program's come first. */
static int pprof_write_mappings(onstack_pprof_writer *writer) {
  const onstack_profile_maps *maps = writer->report->view.maps;
  int error = 0;
  for (int others = 0; others <= 1; others++) {
    for (size_t i = 0; error == 0 && i < maps->count; i++) {
      bool other = !maps->items[i].main || maps->items[i].retired;
      if (writer->mappings[i].number != 0 && other == others) error = pprof_write_mapping(writer, i);
    }
  }
  return error;
}

int onstack_pprof_write_tables(onstack_pprof_writer *writer) {
  writer->mappings = calloc(writer->report->view.maps->count + 1, sizeof(*writer->mappings));
  if (!writer->mappings) return -ENOMEM;
  pprof_number_mappings(writer);
  int error = 0;
  for (size_t i = 0; error == 0 && i < writer->report->symbols.count; i++) {
    error = pprof_write_location(writer, (uint32_t)i);
  }
  for (uint32_t i = 0; error == 0 && i < writer->special_count; i++) {
    error = pprof_write_special(writer, writer->specials[i]);
  }
  if (error == 0) error = pprof_write_functions(writer);
  return error != 0 ? error : pprof_write_mappings(writer);
}
