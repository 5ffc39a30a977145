/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/symbol_table.h"

#include "platform/calls.h"
#include "platform/interpreted.h"
#include "profile/elf/elf_symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

/* Names for the addresses: from the host, from ELF files, from module and offset. */

/* The addresses that mean what lies there now; the table knows the number of each. */
static int symbolize_choose(onstack_symbol_table *table, const onstack_profile_maps *maps, uint64_t **addresses) {
  *addresses = malloc((table->count + 1) * sizeof(**addresses));
  table->asked = malloc((table->count + 1) * sizeof(*table->asked));
  table->asked_count = 0;
  if (!*addresses || !table->asked) return -ENOMEM;
  for (size_t i = 0; i < table->count; i++) {
    if (onstack_is_interpreted(table->addresses[i])) continue;
    if (!onstack_profile_maps_is_now(maps, table->addresses[i])) continue;
    (*addresses)[table->asked_count] = table->addresses[i];
    table->asked[table->asked_count++] = (uint32_t)i;
  }
  return 0;
}

int onstack_profile_symbolize_by_host(onstack_symbol_table *table, const onstack_profile_maps *maps,
                                      onstack_symbolizer symbolizer, void *data) {
  ONSTACK_STOP_EXCEPTIONS;
  uint64_t *addresses;
  if (!symbolizer || table->count == 0) return 0;
  int result = symbolize_choose(table, maps, &addresses);
  if (result == 0 && table->asked_count > 0) result = symbolizer(data, addresses, table->asked_count, table);
  free(addresses);
  return result != 0 ? result : table->error;
}

typedef struct symbolize_item {
  uint64_t address;
  uint32_t number;
} symbolize_item;

static int symbolize_compare(const void *a, const void *b) {
  const symbolize_item *left = a, *right = b;
  return left->address < right->address ? -1 : left->address > right->address;
}

/* The addresses without a name, sorted. */
static int symbolize_collect(const onstack_symbol_table *table, symbolize_item **items, size_t *count) {
  *items = malloc((table->count + 1) * sizeof(**items));
  if (!*items) return -ENOMEM;
  *count = 0;
  for (size_t i = 0; i < table->count; i++) {
    if (table->lines_of[i].first != ONSTACK_PROFILE_NO_LINE) continue;
    (*items)[(*count)++] = (symbolize_item){.address = table->addresses[i], .number = (uint32_t)i};
  }
  qsort(*items, *count, sizeof(**items), symbolize_compare);
  return 0;
}

static int symbolize_mapping(onstack_symbol_table *table, const onstack_profile_mapping *mapping,
                             const symbolize_item *items, size_t count) {
  onstack_elf_query *queries = calloc(count, sizeof(*queries));
  if (!queries) return -ENOMEM;
  /* One constant is added to each, so they stay sorted. Where a broken file makes the sum wrap, symbols are missed. */
  for (size_t i = 0; i < count; i++) {
    queries[i].address = onstack_profile_mapping_vaddr(mapping, items[i].address);
    queries[i].number = items[i].number;
  }
  onstack_profile_arena names = {0};
  int error = onstack_elf_module_symbols(mapping, queries, count, &names);
  for (size_t i = 0; error == 0 && i < count; i++) {
    if (queries[i].name) error = onstack_profile_symbols_name(table, queries[i].number, queries[i].name, true);
  }
  onstack_profile_arena_release(&names);
  free(queries);
  return error;
}

int onstack_profile_symbolize_by_elf(onstack_symbol_table *table, const onstack_profile_maps *maps) {
  symbolize_item *items;
  size_t count = 0;
  int error = symbolize_collect(table, &items, &count);
  for (size_t first = 0, next; error == 0 && first < count; first = next) {
    const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, items[first].address);
    next = first + 1;
    if (!mapping) continue;
    while (next < count && items[next].address < mapping->limit) next++;
    error = symbolize_mapping(table, mapping, items + first, next - first);
  }
  free(items);
  return error;
}

static int symbolize_name_by_module(onstack_symbol_table *table, uint32_t number, const onstack_profile_maps *maps) {
  char number_text[24];
  uint64_t address = table->addresses[number];
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  if (!mapping || mapping->path[0] == '\0') {
    snprintf(number_text, sizeof(number_text), "0x%" PRIx64, address);
    return onstack_profile_symbols_name(table, number, number_text, false);
  }
  uint64_t vaddr = onstack_profile_mapping_vaddr(mapping, address);
  const char *base = onstack_profile_mapping_base_name(mapping);
  int length = snprintf(NULL, 0, "%s+0x%" PRIx64, base, vaddr);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (!text) return -ENOMEM;
  snprintf(text, (size_t)length + 1, "%s+0x%" PRIx64, base, vaddr);
  int error = onstack_profile_symbols_name(table, number, text, false);
  free(text);
  return error;
}

int onstack_profile_symbolize_by_module(onstack_symbol_table *table, const onstack_profile_maps *maps) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < table->count; i++) {
    if (table->lines_of[i].first != ONSTACK_PROFILE_NO_LINE) continue;
    error = symbolize_name_by_module(table, (uint32_t)i, maps);
  }
  return error;
}

/* Names for people, by the demangler of the host. */

#define DEMANGLE_CAPACITY ((size_t)16384)

typedef struct demangle_work {
  onstack_demangler demangler;
  void *data;
  uint32_t *names; /* by the number of the system name; 0, which is "", is not known yet */
  char *text;
} demangle_work;

static int demangle_ask(const demangle_work *work, onstack_profile_strings *strings, uint32_t system, uint32_t *number) {
  ONSTACK_STOP_EXCEPTIONS;
  size_t length = work->demangler(work->data, strings->items[system].text, work->text, DEMANGLE_CAPACITY);
  *number = system;
  if (length == 0) return 0;
  if (length > DEMANGLE_CAPACITY) length = DEMANGLE_CAPACITY;
  return onstack_profile_strings_add(strings, work->text, length, number);
}

static int demangle_lines(const demangle_work *work, onstack_symbol_table *table) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < table->line_count; i++) {
    onstack_profile_line *line = &table->lines[i];
    if (line->name != line->system_name) continue;
    uint32_t *name = &work->names[line->system_name];
    if (*name == 0) error = demangle_ask(work, &table->strings, line->system_name, name);
    if (error == 0) line->name = *name;
  }
  return error;
}

int onstack_profile_demangle(onstack_symbol_table *table, onstack_demangler demangler, void *data) {
  if (!demangler || table->line_count == 0) return 0;
  demangle_work work = {.demangler = demangler, .data = data};
  work.names = calloc(table->strings.count, sizeof(*work.names)); /* system names are all there; what is added is not one */
  work.text = malloc(DEMANGLE_CAPACITY);
  int error = work.names && work.text ? demangle_lines(&work, table) : -ENOMEM;
  free(work.names);
  free(work.text);
  return error;
}
