/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/generated.h"

#include "platform/atomics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether an address of the table has no name yet, and lies in memory of no program or library. */
static bool generated_is(const onstack_symbol_table *table, const onstack_profile_maps *maps, size_t number) {
  const uint64_t address = table->addresses[number];
  if (table->lines_of[number].first != ONSTACK_PROFILE_NO_LINE) return false;
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  const bool library = mapping && onstack_profile_mapping_is_file(mapping) && onstack_profile_mapping_is_image(mapping);
  return !library && onstack_profile_maps_is_now(maps, address);
}

static int generated_compare(const void *a, const void *b) {
  const onstack_generated_item *left = a, *right = b;
  return left->address < right->address ? -1 : left->address > right->address;
}

int onstack_generated_collect(const onstack_symbol_table *table, const onstack_profile_maps *maps,
                              onstack_generated_item **items, size_t *count) {
  *count = 0;
  *items = malloc((table->count + 1) * sizeof(**items));
  if (!*items) return -ENOMEM;
  for (size_t i = 0; i < table->count; i++) {
    if (!generated_is(table, maps, i)) continue;
    (*items)[(*count)++] = (onstack_generated_item){.address = table->addresses[i], .number = (uint32_t)i};
  }
  qsort(*items, *count, sizeof(**items), generated_compare);
  return 0;
}

size_t onstack_generated_first(const void *items, size_t item_bytes, size_t count, uint64_t start) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    uint64_t address;
    memcpy(&address, (const char *)items + middle * item_bytes, sizeof(address));
    if (address < start)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const char *onstack_generated_engine(const char *name) {
  static const struct {
    const char *prefix, *engine;
  } known[] = {{"wasm[", "wasmtime"}, {"JS:", "V8"}, {"Builtin:", "V8"}, {"BytecodeHandler:", "V8"}, {"RegExp:", "V8"}};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(known); i++)
    if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0) return known[i].engine;
  return NULL;
}

int onstack_generated_name(onstack_symbol_table *table, uint32_t number, const onstack_symbol_line *line) {
  const char *engine = onstack_generated_engine(line->name);
  int error = onstack_profile_symbols_add_line(table, number, line);
  if (error != 0) return error;
  return onstack_profile_strings_add_text(&table->strings, engine, &table->lines_of[number].engine);
}

int onstack_name_sources_give(onstack_symbol_table *table, const onstack_name_context *context) {
  static const onstack_name_source *const all[] = {&onstack_name_source_jitdump, &onstack_name_source_perf_map};
  int error = 0;
  for (size_t i = 0; error == 0 && i < ONSTACK_COUNT_OF(all); i++) error = all[i]->give(table, context);
  return error;
}
