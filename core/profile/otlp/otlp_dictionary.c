/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"

#include <errno.h>
#include <string.h>

/* Adds the message as an entry of a table and empties it. */
static void otlp_add_entry(onstack_otlp_writer *writer, uint32_t table) {
  onstack_protobuf_add_part(&writer->dictionary, table, &writer->message);
}

static void otlp_add_table(onstack_otlp_writer *writer, uint32_t table, const onstack_profile_strings *entries) {
  for (size_t i = 0; i < entries->count; i++) {
    onstack_protobuf_add_bytes(&writer->dictionary, table, entries->items[i].text, entries->items[i].length);
  }
}

static bool otlp_ends_with(const onstack_profile_string *text, const char *end) {
  const size_t length = strlen(end);
  return text->length >= length && memcmp(text->text + text->length - length, end, length) == 0;
}

static bool otlp_is_rust_name(const onstack_profile_string *name) {
  if (name->length > 2 && memcmp(name->text, "_R", 2) == 0) return true;
  /* The older form ends in a part of 17 characters: a hash. */
  return name->length > 23 && memcmp(name->text, "_ZN", 3) == 0 && otlp_ends_with(name, "E") &&
         memcmp(name->text + name->length - 20, "17h", 3) == 0;
}

/*
 * The language of the function that was compiled for this place, the last of its lines: by the name of its source file, or
 * in Rust by the form of its symbol. Go's assembly files are C's by their ends, and their functions have a package.
 */
static const char *otlp_frame_type(const onstack_symbol_table *symbols, const onstack_profile_lines_of *lines) {
  if (!lines->named) return "native";
  const onstack_profile_line *line = &symbols->lines[lines->last];
  const onstack_profile_string *file = &symbols->strings.items[line->file];
  const onstack_profile_string *name = &symbols->strings.items[line->system_name];
  if (otlp_ends_with(file, ".go")) return "go";
  if (otlp_ends_with(file, ".s") && memchr(name->text, '.', name->length)) return "go";
  return otlp_ends_with(file, ".rs") || otlp_is_rust_name(name) ? "rust" : "native";
}

/* Of what lies in memory without a file nobody knows who wrote it. */
static int otlp_add_frame_type(onstack_otlp_writer *writer, const onstack_profile_lines_of *lines,
                               const onstack_profile_mapping *place) {
  if (!place || !onstack_profile_mapping_is_file(place)) return 0;
  onstack_protobuf_add_text(&writer->value, otlp_value_string, otlp_frame_type(&writer->report->symbols, lines));
  int error = onstack_otlp_add_attribute(writer, "profile.frame.type", &writer->numbers);
  onstack_protobuf_add_part(&writer->message, otlp_location_attribute_indices, &writer->numbers);
  return error;
}

static int otlp_add_location(onstack_otlp_writer *writer, uint32_t number) {
  const onstack_symbol_table *symbols = &writer->report->symbols;
  const onstack_profile_lines_of *lines = &symbols->lines_of[number];
  const onstack_profile_mapping *place;
  onstack_profile_table_mapping *mapping =
      onstack_profile_tables_mapping(&writer->tables, symbols->addresses[number], &place);
  if (mapping) onstack_protobuf_add_number(&writer->message, otlp_location_mapping, mapping->number);
  onstack_protobuf_add_number(&writer->message, otlp_location_address,
                              onstack_profile_tables_real(place, symbols->addresses[number]));
  int error = onstack_profile_tables_add_lines(&writer->tables, lines, mapping, &writer->message);
  if (error == 0) error = otlp_add_frame_type(writer, lines, place);
  otlp_add_entry(writer, otlp_dictionary_locations);
  return error;
}

static int otlp_add_locations(onstack_otlp_writer *writer) {
  int error = 0;
  otlp_add_entry(writer, otlp_dictionary_locations);
  for (size_t i = 0; error == 0 && i < writer->report->symbols.count; i++) {
    error = otlp_add_location(writer, (uint32_t)i);
  }
  for (uint32_t i = 0; error == 0 && i < writer->tables.special_count; i++) {
    const char *name = onstack_profile_tables_special_name(&writer->tables, i);
    error = onstack_profile_tables_add_name(&writer->tables, name, &writer->message);
    otlp_add_entry(writer, otlp_dictionary_locations);
  }
  return error;
}

static int otlp_add_flag(onstack_otlp_writer *writer, const char *key, bool set) {
  if (!set) return 0;
  onstack_protobuf_add_chosen(&writer->value, otlp_value_bool, true);
  return onstack_otlp_add_attribute(writer, key, &writer->numbers);
}

static int otlp_add_mapping_attributes(onstack_otlp_writer *writer, const onstack_profile_table_mapping *known,
                                       uint32_t build_id) {
  int error = 0;
  if (build_id != 0) {
    const onstack_profile_string *text = &writer->report->symbols.strings.items[build_id];
    onstack_protobuf_add_bytes(&writer->value, otlp_value_string, text->text, text->length);
    error = onstack_otlp_add_attribute(writer, "process.executable.build_id.gnu", &writer->numbers);
  }
  if (error == 0) error = otlp_add_flag(writer, "pprof.mapping.has_functions", known->has_functions);
  if (error == 0) error = otlp_add_flag(writer, "pprof.mapping.has_filenames", known->has_files);
  if (error == 0) error = otlp_add_flag(writer, "pprof.mapping.has_line_numbers", known->has_lines);
  if (error == 0) error = otlp_add_flag(writer, "pprof.mapping.has_inline_frames", known->has_inlines);
  if (writer->numbers.used > 0) {
    onstack_protobuf_add_part(&writer->message, otlp_mapping_attribute_indices, &writer->numbers);
  }
  return error;
}

static int otlp_add_mapping(onstack_otlp_writer *writer, uint32_t item) {
  const onstack_profile_mapping *mapping = &writer->report->view.maps->items[item];
  onstack_protobuf *message = &writer->message;
  uint32_t path, build_id;
  int error = onstack_profile_tables_mapping_strings(&writer->tables, mapping, &path, &build_id);
  if (error != 0) return error;
  onstack_protobuf_add_number(message, otlp_mapping_memory_start, mapping->real);
  onstack_protobuf_add_number(message, otlp_mapping_memory_limit, onstack_profile_mapping_real(mapping, mapping->limit));
  onstack_protobuf_add_number(message, otlp_mapping_file_offset, mapping->offset);
  onstack_protobuf_add_number(message, otlp_mapping_filename, path);
  error = otlp_add_mapping_attributes(writer, &writer->tables.mappings[item], build_id);
  otlp_add_entry(writer, otlp_dictionary_mappings);
  return error;
}

int onstack_otlp_make_dictionary(onstack_otlp_writer *writer) {
  int error = otlp_add_locations(writer);
  otlp_add_entry(writer, otlp_dictionary_mappings);
  for (uint32_t i = 0; error == 0 && i < writer->tables.mapping_count; i++) {
    error = otlp_add_mapping(writer, writer->tables.mapping_order[i]);
  }
  otlp_add_table(writer, otlp_dictionary_functions, &writer->tables.functions);
  /* Of entry 0 the specification allows ids of zeros as well; servers refuse those. */
  otlp_add_table(writer, otlp_dictionary_links, &writer->links);
  otlp_add_table(writer, otlp_dictionary_attributes, &writer->attributes);
  otlp_add_table(writer, otlp_dictionary_stacks, &writer->stacks);
  /* Nothing adds a string from here on. */
  otlp_add_table(writer, otlp_dictionary_strings, &writer->report->symbols.strings);
  return error;
}
