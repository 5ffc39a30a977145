/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/pprof/pprof_writer.h"

#include "profile/pprof/pprof_fields.h"

static int pprof_write_location(onstack_pprof_writer *writer, uint32_t number) {
  const onstack_symbol_table *symbols = &writer->report->symbols;
  const onstack_profile_mapping *place;
  onstack_profile_table_mapping *mapping =
      onstack_profile_tables_mapping(&writer->tables, symbols->addresses[number], &place);
  onstack_protobuf_add_number(&writer->message, pprof_location_id, (uint64_t)number + 1);
  if (mapping) onstack_protobuf_add_number(&writer->message, pprof_location_mapping_id, mapping->number);
  onstack_protobuf_add_number(&writer->message, pprof_location_address,
                              onstack_profile_tables_real(place, symbols->addresses[number]));
  int error = onstack_profile_tables_add_lines(&writer->tables, &symbols->lines_of[number], mapping, &writer->message);
  return error != 0 ? error : onstack_pprof_send(writer, pprof_profile_location);
}

static int pprof_write_special(onstack_pprof_writer *writer, uint32_t place) {
  const char *name = onstack_profile_tables_special_name(&writer->tables, place);
  onstack_protobuf_add_number(&writer->message, pprof_location_id, (uint64_t)writer->report->symbols.count + 1 + place);
  int error = onstack_profile_tables_add_name(&writer->tables, name, &writer->message);
  return error != 0 ? error : onstack_pprof_send(writer, pprof_profile_location);
}

static int pprof_write_functions(onstack_pprof_writer *writer) {
  const onstack_profile_strings *functions = &writer->tables.functions;
  int error = 0;
  for (size_t i = 1; error == 0 && i < functions->count; i++) {
    onstack_protobuf_add_number(&writer->message, pprof_function_id, i);
    onstack_protobuf_add_encoded(&writer->message, functions->items[i].text, functions->items[i].length);
    error = onstack_pprof_send(writer, pprof_profile_function);
  }
  return error;
}

static int pprof_write_mapping(onstack_pprof_writer *writer, uint32_t item) {
  const onstack_profile_mapping *mapping = &writer->report->view.maps->items[item];
  const onstack_profile_table_mapping *known = &writer->tables.mappings[item];
  onstack_protobuf *message = &writer->message;
  uint32_t path, build_id;
  int error = onstack_profile_tables_mapping_strings(&writer->tables, mapping, &path, &build_id);
  if (error != 0) return error;
  onstack_protobuf_add_number(message, pprof_mapping_id, known->number);
  onstack_protobuf_add_number(message, pprof_mapping_memory_start, mapping->real);
  onstack_protobuf_add_number(message, pprof_mapping_memory_limit, onstack_profile_mapping_real(mapping, mapping->limit));
  onstack_protobuf_add_number(message, pprof_mapping_file_offset, mapping->offset);
  onstack_protobuf_add_number(message, pprof_mapping_filename, path);
  onstack_protobuf_add_number(message, pprof_mapping_build_id, build_id);
  onstack_protobuf_add_number(message, pprof_mapping_has_functions, known->has_functions);
  onstack_protobuf_add_number(message, pprof_mapping_has_filenames, known->has_files);
  onstack_protobuf_add_number(message, pprof_mapping_has_line_numbers, known->has_lines);
  onstack_protobuf_add_number(message, pprof_mapping_has_inline_frames, known->has_inlines);
  return onstack_pprof_send(writer, pprof_profile_mapping);
}

int onstack_pprof_write_tables(onstack_pprof_writer *writer) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < writer->report->symbols.count; i++) {
    error = pprof_write_location(writer, (uint32_t)i);
  }
  for (uint32_t i = 0; error == 0 && i < writer->tables.special_count; i++) error = pprof_write_special(writer, i);
  if (error == 0) error = pprof_write_functions(writer);
  for (uint32_t i = 0; error == 0 && i < writer->tables.mapping_count; i++) {
    error = pprof_write_mapping(writer, writer->tables.mapping_order[i]);
  }
  return error;
}
