/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp.h"

#include "platform/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What is said of samples by key and value. */

#define ONSTACK_OTLP_TRACE_ID 16u /* bytes */
#define ONSTACK_OTLP_SPAN_ID 8u

int onstack_otlp_text_value(onstack_otlp_writer *writer, const char *text, size_t length) {
  uint32_t number;
  int error = onstack_profile_strings_add(&writer->texts, text, length, &number);
  if (error != 0) return error;
  const onstack_profile_string *clean = &writer->texts.items[number];
  onstack_protobuf_add_bytes(&writer->value, otlp_value_string, clean->text, clean->length);
  return 0;
}

/* The number of the attribute with this key and the AnyValue in writer->value, which is emptied. */
static int otlp_attribute(onstack_otlp_writer *writer, const char *key, uint32_t *number) {
  uint32_t key_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, key, &key_number);
  if (error != 0) return error;
  onstack_protobuf *part = &writer->part;
  onstack_protobuf_add_number(part, otlp_attribute_key, key_number);
  onstack_protobuf_add_part(part, otlp_attribute_value, &writer->value);
  if (part->failed) return -ENOMEM;
  error = onstack_profile_strings_add_bytes(&writer->attributes, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

/* The same, added to a list of numbers. */
static int otlp_add_attribute(onstack_otlp_writer *writer, const char *key, onstack_protobuf *numbers) {
  uint32_t number;
  int error = otlp_attribute(writer, key, &number);
  if (error == 0) onstack_protobuf_add_varint(numbers, number);
  return error;
}

void onstack_otlp_add_key_value(onstack_otlp_writer *writer, onstack_protobuf *message, uint32_t field, const char *key,
                                size_t length) {
  onstack_protobuf_add_bytes(&writer->part, otlp_key_value_key, key, length);
  onstack_protobuf_add_part(&writer->part, otlp_key_value_value, &writer->value);
  onstack_protobuf_add_part(message, field, &writer->part);
}

/* Whether the sample has this key already. Keys that were no text may have become the same: numbers are compared. */
static bool otlp_has_key(onstack_otlp_writer *writer, uint32_t key) {
  for (uint32_t i = 0; i < writer->key_count; i++) {
    if (writer->keys[i] == key) return true;
  }
  writer->keys[writer->key_count++] = key;
  return false;
}

/* An attribute without a key says nothing, and a second one with the same key must not be: the first stands. */
static int otlp_add_label(onstack_otlp_writer *writer, const char *key) {
  uint32_t key_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, key, &key_number);
  if (error != 0) return error;
  if (key_number != 0 && !otlp_has_key(writer, key_number)) {
    return otlp_add_attribute(writer, key, &writer->numbers);
  }
  writer->value.used = 0;
  return 0;
}

static int otlp_hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* An id in hexadecimal digits; false: it is none. All zeros are none by definition. */
static bool otlp_read_id(const char *text, uint8_t *id, size_t bytes) {
  bool any = false;
  if (!text || strlen(text) != 2 * bytes) return false;
  for (size_t i = 0; i < bytes; i++) {
    int high = otlp_hex(text[2 * i]), low = otlp_hex(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    id[i] = (uint8_t)(high << 4 | low);
    any = any || id[i] != 0;
  }
  return any;
}

/* The number of the link that two labels mean; 0: they mean none. */
static int otlp_link(onstack_otlp_writer *writer, const char *trace, const char *span, uint32_t *number) {
  uint8_t trace_id[ONSTACK_OTLP_TRACE_ID], span_id[ONSTACK_OTLP_SPAN_ID];
  onstack_protobuf *part = &writer->part;
  *number = 0;
  if (!otlp_read_id(trace, trace_id, sizeof(trace_id)) || !otlp_read_id(span, span_id, sizeof(span_id))) return 0;
  onstack_protobuf_add_bytes(part, otlp_link_trace_id, trace_id, sizeof(trace_id));
  onstack_protobuf_add_bytes(part, otlp_link_span_id, span_id, sizeof(span_id));
  if (part->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&writer->links, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

typedef struct otlp_pair {
  const char *key, *value;
} otlp_pair;

/* The sink has seen to it that there are pairs, and that each string ends. */
static uint32_t otlp_next_label(const onstack_profile_stack *stack, uint32_t at, otlp_pair *pair) {
  pair->key = stack->head->labels + at;
  pair->value = pair->key + strlen(pair->key) + 1;
  return (uint32_t)(pair->value + strlen(pair->value) + 1 - stack->head->labels);
}

static int otlp_find_link(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *link) {
  const char *trace = NULL, *span = NULL;
  otlp_pair pair;
  for (uint32_t at = 0; at < stack->head->label_bytes;) {
    at = otlp_next_label(stack, at, &pair);
    if (!trace && strcmp(pair.key, "trace_id") == 0) trace = pair.value;
    if (!span && strcmp(pair.key, "span_id") == 0) span = pair.value;
  }
  return otlp_link(writer, trace, span, link);
}

static int otlp_add_thread(onstack_otlp_writer *writer, const onstack_profile_stack *stack) {
  int error = 0;
  if (stack->head->thread_name[0] != '\0') {
    error = onstack_otlp_text_value(writer, stack->head->thread_name, strlen(stack->head->thread_name));
    if (error == 0) error = otlp_add_label(writer, "thread.name");
  }
  if (error == 0 && stack->head->tid != 0) {
    onstack_protobuf_add_chosen(&writer->value, otlp_value_int, (uint64_t)stack->head->tid);
    error = otlp_add_label(writer, "thread.id");
  }
  return error;
}

/* What is said of a sample: its attributes as numbers into writer->numbers, and its link; 0: none. */
static int otlp_labels(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *link) {
  writer->key_count = 0;
  int error = otlp_find_link(writer, stack, link);
  if (error == 0) error = otlp_add_thread(writer, stack);
  for (uint32_t at = 0; error == 0 && at < stack->head->label_bytes;) {
    otlp_pair pair;
    at = otlp_next_label(stack, at, &pair);
    if (*link != 0 && (strcmp(pair.key, "trace_id") == 0 || strcmp(pair.key, "span_id") == 0)) continue;
    error = onstack_otlp_text_value(writer, pair.value, strlen(pair.value));
    if (error == 0) error = otlp_add_label(writer, pair.key);
  }
  return error;
}

/* The tables. */

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
  int error = otlp_add_attribute(writer, "profile.frame.type", &writer->numbers);
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
                              onstack_profile_tables_real(symbols->addresses[number]));
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
  return otlp_add_attribute(writer, key, &writer->numbers);
}

static int otlp_add_mapping_attributes(onstack_otlp_writer *writer, const onstack_profile_table_mapping *known,
                                       uint32_t build_id) {
  int error = 0;
  if (build_id != 0) {
    const onstack_profile_string *text = &writer->report->symbols.strings.items[build_id];
    onstack_protobuf_add_bytes(&writer->value, otlp_value_string, text->text, text->length);
    error = otlp_add_attribute(writer, "process.executable.build_id.gnu", &writer->numbers);
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
  onstack_protobuf_add_number(message, otlp_mapping_memory_start, mapping->start);
  onstack_protobuf_add_number(message, otlp_mapping_memory_limit, mapping->limit);
  onstack_protobuf_add_number(message, otlp_mapping_file_offset, mapping->offset);
  onstack_protobuf_add_number(message, otlp_mapping_filename, path);
  error = otlp_add_mapping_attributes(writer, &writer->tables.mappings[item], build_id);
  otlp_add_entry(writer, otlp_dictionary_mappings);
  return error;
}

/* Fills writer->dictionary; after all else. */
static int otlp_make_dictionary(onstack_otlp_writer *writer) {
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

/* Profiles and samples. */

static int otlp_stack(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *number) {
  onstack_protobuf *part = &writer->part;
  onstack_profile_tables_add_stack(&writer->tables, stack, &writer->numbers);
  onstack_protobuf_add_part(part, otlp_stack_location_indices, &writer->numbers);
  if (part->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&writer->stacks, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

/* What the samples of a stack have in all Profiles. */
static int otlp_add_identity(onstack_otlp_writer *writer, const onstack_profile_stack *stack) {
  onstack_protobuf *identities = &writer->identities;
  uint32_t number, link = 0;
  int error = otlp_stack(writer, stack, &number);
  if (error == 0) error = otlp_labels(writer, stack, &link);
  if (error != 0) return error;
  onstack_protobuf_add_number(identities, otlp_sample_stack, number);
  if (writer->numbers.used > 0) onstack_protobuf_add_part(identities, otlp_sample_attribute_indices, &writer->numbers);
  onstack_protobuf_add_number(identities, otlp_sample_link, link);
  if (identities->failed) return -ENOMEM;
  writer->identity_ends[writer->identity_count++] = identities->used;
  return 0;
}

static int otlp_make_identities(onstack_otlp_writer *writer) {
  const onstack_profile_view *view = &writer->report->view;
  writer->identity_ends = malloc((view->count + ONSTACK_KINDS) * sizeof(*writer->identity_ends));
  if (!writer->identity_ends) return -ENOMEM;
  int error = 0;
  for (size_t i = 0; error == 0 && i < view->count; i++) error = otlp_add_identity(writer, &view->items[i]);
  for (uint32_t i = 0; error == 0 && i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].weight > 0) error = otlp_add_identity(writer, &view->overflow[i]);
  }
  return error;
}

/* Adds a Sample to the Profile in writer->message. A value of 0, where the stack's are in other Profiles, is none. */
static void otlp_add_sample(onstack_otlp_writer *writer, const onstack_profile_stack *stack, size_t identity,
                            uint32_t column) {
  const size_t start = identity == 0 ? 0 : writer->identity_ends[identity - 1];
  const uint64_t value = onstack_profile_columns_value(&writer->columns, stack, column);
  if (value == 0) return;
  onstack_protobuf_add_encoded(&writer->part, writer->identities.bytes + start, writer->identity_ends[identity] - start);
  onstack_protobuf_add_varint(&writer->numbers, value);
  onstack_protobuf_add_part(&writer->part, otlp_sample_values, &writer->numbers);
  onstack_protobuf_add_part(&writer->message, otlp_profile_samples, &writer->part);
}

static void otlp_add_samples(onstack_otlp_writer *writer, uint32_t column) {
  const onstack_profile_view *view = &writer->report->view;
  size_t identity = view->count;
  for (size_t i = 0; i < view->count; i++) otlp_add_sample(writer, &view->items[i], i, column);
  for (uint32_t i = 0; i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].weight > 0) otlp_add_sample(writer, &view->overflow[i], identity++, column);
  }
}

static int otlp_add_value_type(onstack_otlp_writer *writer, uint32_t field, const char *type, const char *unit) {
  onstack_profile_strings *strings = &writer->report->symbols.strings;
  uint32_t type_number, unit_number;
  int error = onstack_profile_strings_add_text(strings, type, &type_number);
  if (error == 0) error = onstack_profile_strings_add_text(strings, unit, &unit_number);
  if (error != 0) return error;
  onstack_protobuf_add_number(&writer->part, otlp_value_type_type, type_number);
  onstack_protobuf_add_number(&writer->part, otlp_value_type_unit, unit_number);
  onstack_protobuf_add_part(&writer->message, field, &writer->part);
  return 0;
}

/* The remarks, a text each; empty lines say nothing. Leaves writer->value empty where there are none. */
static int otlp_make_comments(onstack_otlp_writer *writer) {
  int error = 0;
  for (const char *line = writer->report->comments; line && *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    uint32_t number;
    error = onstack_profile_strings_add(&writer->texts, line, length, &number);
    if (error != 0) break;
    const onstack_profile_string *text = &writer->texts.items[number];
    if (number != 0) onstack_protobuf_add_bytes(&writer->part, otlp_value_string, text->text, text->length);
    if (number != 0) onstack_protobuf_add_part(&writer->numbers, otlp_array_values, &writer->part);
    line += length + (line[length] == '\n');
  }
  if (writer->numbers.used > 0) onstack_protobuf_add_part(&writer->value, otlp_value_array, &writer->numbers);
  return error;
}

/* What pprof says of a whole profile, as attributes. */
static int otlp_add_remarks(onstack_otlp_writer *writer) {
  onstack_protobuf numbers = {0};
  int error = otlp_make_comments(writer);
  if (error == 0 && writer->value.used > 0) error = otlp_add_attribute(writer, "pprof.profile.comment", &numbers);
  if (error == 0 && writer->columns.drop_frames) {
    error = onstack_otlp_text_value(writer, writer->columns.drop_frames, strlen(writer->columns.drop_frames));
    if (error == 0) error = otlp_add_attribute(writer, "pprof.profile.drop_frames", &numbers);
  }
  if (numbers.used > 0 || numbers.failed)
    onstack_protobuf_add_part(&writer->message, otlp_profile_attribute_indices, &numbers);
  onstack_protobuf_release(&numbers);
  return error;
}

static int otlp_add_profile(onstack_otlp_writer *writer, uint32_t column) {
  const onstack_profile_columns *columns = &writer->columns;
  const onstack_profile_column *type = &columns->items[column];
  onstack_protobuf *message = &writer->message;
  int error = otlp_add_value_type(writer, otlp_profile_sample_type, type->type, type->unit);
  if (error != 0) return error;
  otlp_add_samples(writer, column);
  onstack_protobuf_add_fixed(message, otlp_profile_time_unix_nano, (uint64_t)writer->report->start_unix_ns);
  onstack_protobuf_add_number(message, otlp_profile_duration_nano, (uint64_t)writer->report->duration_ns);
  error = otlp_add_value_type(writer, otlp_profile_period_type, columns->period_type, columns->items[columns->shown].unit);
  onstack_protobuf_add_number(message, otlp_profile_period, columns->period);
  if (error == 0) error = otlp_add_remarks(writer);
  onstack_protobuf_add_part(&writer->scope_profiles, otlp_scope_profiles_profiles, message);
  return error;
}

/* Adds a Profile for each column to writer->scope_profiles, the one that is shown first. */
static int otlp_add_profiles(onstack_otlp_writer *writer) {
  const onstack_profile_columns *columns = &writer->columns;
  int error = otlp_make_identities(writer);
  if (error == 0) error = otlp_add_profile(writer, columns->shown);
  for (uint32_t i = 0; error == 0 && i < columns->count; i++) {
    if (i != columns->shown) error = otlp_add_profile(writer, i);
  }
  return error;
}

/* The whole. */

/* What a reader needs to make the pprof profile again: which of the Profiles was which of its columns. */
static int otlp_add_scope_attributes(onstack_otlp_writer *writer, onstack_protobuf *scope) {
  static const char shown[] = "pprof.scope.default_sample_type", order[] = "pprof.scope.sample_type_order";
  const onstack_profile_columns *columns = &writer->columns;
  if (columns->says_shown) {
    const char *type = columns->items[columns->shown].type;
    int error = onstack_otlp_text_value(writer, type, strlen(type));
    if (error != 0) return error;
    onstack_otlp_add_key_value(writer, scope, otlp_scope_attributes, shown, sizeof(shown) - 1);
  }
  for (uint32_t i = 0; i < columns->count; i++) {
    const uint32_t column = i == 0 ? columns->shown : i <= columns->shown ? i - 1 : i;
    onstack_protobuf_add_chosen(&writer->part, otlp_value_int, column);
    onstack_protobuf_add_part(&writer->numbers, otlp_array_values, &writer->part);
  }
  onstack_protobuf_add_part(&writer->value, otlp_value_array, &writer->numbers);
  onstack_otlp_add_key_value(writer, scope, otlp_scope_attributes, order, sizeof(order) - 1);
  return 0;
}

static int otlp_add_scope(onstack_otlp_writer *writer) {
  onstack_protobuf *scope = &writer->message;
  onstack_protobuf_add_text(scope, otlp_scope_name, "onstack");
  onstack_protobuf_add_text(scope, otlp_scope_version, onstack_version());
  int error = otlp_add_scope_attributes(writer, scope);
  onstack_protobuf_add_part(&writer->scope_profiles, otlp_scope_profiles_scope, scope);
  return error;
}

static int otlp_make(onstack_otlp_writer *writer, bool process_context) {
  int error = onstack_profile_strings_init(&writer->attributes);
  if (error == 0) error = onstack_profile_strings_init(&writer->links);
  if (error == 0) error = onstack_profile_strings_init(&writer->stacks);
  if (error == 0) error = onstack_profile_strings_init(&writer->texts);
  if (error == 0) error = onstack_otlp_make_resource(writer, process_context);
  if (error == 0) error = otlp_add_scope(writer);
  if (error == 0) error = otlp_add_profiles(writer);
  if (error == 0) error = otlp_make_dictionary(writer);
  if (error == 0 && (writer->resource.failed || writer->scope_profiles.failed || writer->dictionary.failed)) return -ENOMEM;
  return error;
}

/* The parts without one more copy of them: ResourceProfiles is as long as its fields. */
static int otlp_send(onstack_otlp_writer *writer, onstack_profile_output *output) {
  onstack_protobuf *head = &writer->message;
  onstack_protobuf *resource = &writer->part, *scope = &writer->value, *samples = &writer->scope_profiles;
  onstack_protobuf_add_part(resource, otlp_resource_profiles_resource, &writer->resource);
  onstack_protobuf_add_head(scope, otlp_resource_profiles_scope_profiles, samples->used);
  onstack_protobuf_add_head(head, otlp_request_resource_profiles, resource->used + scope->used + samples->used);
  onstack_protobuf_add_encoded(head, resource->bytes, resource->used);
  onstack_protobuf_add_encoded(head, scope->bytes, scope->used);
  onstack_protobuf_add_head(&writer->numbers, otlp_request_dictionary, writer->dictionary.used);
  if (resource->failed || scope->failed || head->failed || writer->numbers.failed) return -ENOMEM;
  onstack_profile_output_put(output, head->bytes, head->used);
  onstack_profile_output_put(output, samples->bytes, samples->used);
  onstack_profile_output_put(output, writer->numbers.bytes, writer->numbers.used);
  return onstack_profile_output_put(output, writer->dictionary.bytes, writer->dictionary.used);
}

static void otlp_release(onstack_otlp_writer *writer) {
  onstack_protobuf *messages[] = {&writer->identities, &writer->resource, &writer->scope_profiles, &writer->dictionary,
                                  &writer->message,    &writer->part,     &writer->value,          &writer->numbers};
  for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) onstack_protobuf_release(messages[i]);
  onstack_profile_strings_release(&writer->attributes);
  onstack_profile_strings_release(&writer->links);
  onstack_profile_strings_release(&writer->stacks);
  onstack_profile_strings_release(&writer->texts);
  onstack_profile_strings_release(&writer->resource_keys);
  onstack_profile_tables_release(&writer->tables);
  free(writer->identity_ends);
}

static int otlp_write_all(onstack_profile_report *report, const onstack_otlp_options *options, bool process_context,
                          onstack_profile_output *output) {
  static const onstack_profile_table_fields fields = {.location_line = otlp_location_lines,
                                                      .function_name = otlp_function_name};
  onstack_otlp_writer writer = {.report = report, .options = options, .columns = onstack_profile_columns_of(report)};
  int error = onstack_profile_tables_open(&writer.tables, report, &fields);
  if (error == 0) error = otlp_make(&writer, process_context);
  if (error == 0) error = otlp_send(&writer, output);
  otlp_release(&writer);
  return error;
}

static int otlp_read_options(const onstack_otlp_options *given, onstack_otlp_options *options, bool *process_context) {
  *options = (onstack_otlp_options){0};
  int error = given ? onstack_sized_copy(options, sizeof(*options), 0, given) : 0;
  if (error == 0 && options->resource_count > 0 && !options->resource) error = ONSTACK_E_OPTIONS;
  for (size_t i = 0; error == 0 && i < sizeof(options->reserved); i++) {
    if (options->reserved[i] != 0) error = ONSTACK_E_OPTIONS;
  }
  return error != 0 ? error : onstack_switch_read(options->process_context, process_context);
}

ONSTACK_API int onstack_profile_write_otlp(onstack_profile *profile, const onstack_write_options *options,
                                           const onstack_otlp_options *otlp, onstack_writer writer, void *writer_data) {
  ONSTACK_UNCANCELLED;
  onstack_otlp_options known;
  onstack_profile_report report;
  onstack_profile_output output;
  bool process_context;
  int error = writer ? otlp_read_options(otlp, &known, &process_context) : ONSTACK_E_OPTIONS;
  if (error == 0) error = onstack_profile_report_open(&report, profile, options, false);
  if (error != 0) return error;
  error = onstack_profile_output_open(&output, writer, writer_data);
  if (error == 0) error = onstack_profile_output_close(&output, otlp_write_all(&report, &known, process_context, &output));
  onstack_profile_report_close(&report);
  return error;
}
