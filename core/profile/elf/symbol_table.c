/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/symbol_table.h"

#include "platform/sized.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int onstack_profile_symbols_init(onstack_symbol_table *table) {
  *table = (onstack_symbol_table){0};
  return onstack_profile_strings_init(&table->strings);
}

void onstack_profile_symbols_release(onstack_symbol_table *table) {
  free(table->addresses);
  onstack_profile_hash_release(&table->index);
  free(table->lines_of);
  free(table->lines);
  free(table->asked);
  onstack_profile_strings_release(&table->strings);
  *table = (onstack_symbol_table){0};
}

static bool symbols_equal(const void *owner, uint32_t item, const void *key) {
  return ((const onstack_symbol_table *)owner)->addresses[item] == *(const uint64_t *)key;
}

static uint32_t symbols_hash(uint64_t address) { return onstack_profile_hash_fold(onstack_profile_hash_word(0, address)); }

int onstack_profile_symbols_add_address(onstack_symbol_table *table, uint64_t address) {
  uint32_t hash = symbols_hash(address);
  if (onstack_profile_hash_find(&table->index, hash, symbols_equal, table, &address) != ONSTACK_PROFILE_HASH_NONE) {
    return 0;
  }
  if (table->count >= UINT32_MAX - 1 || onstack_profile_hash_reserve(&table->index) != 0) return -ENOMEM;
  void *addresses = onstack_profile_grow(table->addresses, &table->capacity, table->count + 1, sizeof(address));
  if (!addresses) return -ENOMEM;
  table->addresses = addresses;
  table->addresses[table->count] = address;
  onstack_profile_hash_insert(&table->index, hash, (uint32_t)table->count);
  table->count++;
  return 0;
}

uint32_t onstack_profile_symbols_number(const onstack_symbol_table *table, uint64_t address) {
  return onstack_profile_hash_find(&table->index, symbols_hash(address), symbols_equal, table, &address);
}

int onstack_profile_symbols_open(onstack_symbol_table *table) {
  table->lines_of = calloc(table->count + 1, sizeof(*table->lines_of)); /* + 1: NULL means failure, not "none" */
  if (!table->lines_of) return -ENOMEM;
  for (size_t i = 0; i < table->count; i++) {
    table->lines_of[i].first = table->lines_of[i].last = ONSTACK_PROFILE_NO_LINE;
  }
  return 0;
}

/* Appends a line to the chain of an address. */
static int symbols_append(onstack_symbol_table *table, onstack_profile_lines_of *of, const onstack_profile_line *line) {
  if (table->line_count >= ONSTACK_PROFILE_NO_LINE) return -ENOMEM;
  void *lines = onstack_profile_grow(table->lines, &table->line_capacity, table->line_count + 1, sizeof(*line));
  if (!lines) return -ENOMEM;
  table->lines = lines;
  uint32_t number = (uint32_t)table->line_count++;
  table->lines[number] = *line;
  if (of->first == ONSTACK_PROFILE_NO_LINE) {
    of->first = number;
  } else {
    table->lines[of->last].next = number;
  }
  of->last = number;
  return 0;
}

int onstack_profile_symbols_name(onstack_symbol_table *table, uint32_t number, const char *name, bool named) {
  onstack_profile_line line = {.next = ONSTACK_PROFILE_NO_LINE};
  int error = onstack_profile_strings_add_text(&table->strings, name, &line.name);
  line.system_name = line.name;
  if (error == 0) error = symbols_append(table, &table->lines_of[number], &line);
  if (error == 0) table->lines_of[number].named = named;
  return error;
}

int onstack_profile_symbols_add_line(onstack_symbol_table *table, uint32_t number, const onstack_symbol_line *given) {
  onstack_profile_line line = {.next = ONSTACK_PROFILE_NO_LINE, .line = given->line, .start_line = given->start_line};
  int error = onstack_profile_strings_add_text(&table->strings, given->name, &line.name);
  if (error == 0) error = onstack_profile_strings_add_text(&table->strings, given->system_name, &line.system_name);
  if (error == 0) error = onstack_profile_strings_add_text(&table->strings, given->file, &line.file);
  if (error != 0) return error;
  if (line.name == 0) line.name = line.system_name;
  if (line.system_name == 0) line.system_name = line.name;
  if (line.name == 0) return 0; /* knows nothing: the ELF symbols may */
  error = symbols_append(table, &table->lines_of[number], &line);
  if (error == 0) table->lines_of[number].named = true;
  return error;
}

ONSTACK_API int onstack_symbol_add(onstack_symbol_table *table, size_t index, const onstack_symbol_line *line) {
  onstack_symbol_line given;
  if (!table || !line || !table->asked || index >= table->asked_count) return ONSTACK_E_OPTIONS;
  int error = onstack_sized_copy(&given, sizeof(given), 0, line);
  if (error == 0 && given.reserved != 0) error = ONSTACK_E_OPTIONS;
  if (error != 0) return error;
  error = onstack_profile_symbols_add_line(table, table->asked[index], &given);
  if (error != 0 && table->error == 0) table->error = error;
  return error;
}
