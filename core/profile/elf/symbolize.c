/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/symbolize.h"

#include "platform/exceptions.h"
#include "platform/interpreted.h"
#include "profile/elf/elf_module.h"
#include "profile/elf/elf_symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The addresses that mean what lies there now, as the process has them; the table knows the number of each. */
static int symbolize_choose(onstack_symbol_table *table, const onstack_profile_maps *maps, uint64_t **addresses) {
  *addresses = malloc((table->count + 1) * sizeof(**addresses));
  table->asked = malloc((table->count + 1) * sizeof(*table->asked));
  table->asked_count = 0;
  if (!*addresses || !table->asked) return -ENOMEM;
  for (size_t i = 0; i < table->count; i++) {
    uint64_t real;
    if (onstack_is_interpreted(table->addresses[i])) continue;
    if (!onstack_profile_maps_is_now(maps, table->addresses[i], &real)) continue;
    (*addresses)[table->asked_count] = real;
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
