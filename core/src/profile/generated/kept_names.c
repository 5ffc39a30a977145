/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/kept_names.h"

#include "base/atomics.h"
#include "profile/generated/gdb_jit.h"
#include "profile/generated/name_source.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_NAMES_MOST 65536u /* addresses of one profile; of later ones the list is asked when it is written */

static bool kept_equal(const void *owner, uint32_t item, const void *key) {
  return ((const onstack_kept_names *)owner)->items[item].address == *(const uint64_t *)key;
}

void onstack_kept_names_want(onstack_kept_names *kept, uint64_t address) {
  const uint32_t hash = onstack_profile_hash_fold(onstack_profile_hash_word(0, address));
  if (onstack_profile_hash_find(&kept->index, hash, kept_equal, kept, &address) != ONSTACK_PROFILE_HASH_NONE) return;
  if (kept->count >= KEPT_NAMES_MOST || onstack_profile_hash_reserve(&kept->index) != 0) return;
  void *items = onstack_profile_grow(kept->items, &kept->capacity, kept->count + 1, sizeof(*kept->items));
  if (!items) return;
  kept->items = items;
  kept->items[kept->count] = (onstack_kept_name){.address = address};
  onstack_profile_hash_insert(&kept->index, hash, (uint32_t)kept->count);
  kept->count++;
}

void onstack_kept_names_release(onstack_kept_names *kept) {
  onstack_profile_hash_release(&kept->index);
  onstack_profile_arena_release(&kept->text);
  free(kept->items);
}

static int kept_compare_items(const void *a, const void *b) {
  const onstack_generated_item *left = a, *right = b;
  return left->address < right->address ? -1 : left->address > right->address;
}

bool onstack_kept_batch_begin(onstack_kept_batch *batch, onstack_kept_names *kept, onstack_profile_maps *maps) {
  const size_t count = kept->count - kept->asked;
  *batch = (onstack_kept_batch){.maps = maps};
  if (count == 0) return false;
  batch->items = malloc(count * sizeof(*batch->items));
  batch->queries = calloc(count, sizeof(*batch->queries));
  batch->engines = calloc(count, sizeof(*batch->engines));
  if (!batch->items || !batch->queries || !batch->engines) {
    free(batch->items);
    free(batch->queries);
    free(batch->engines);
    return false;
  }
  for (size_t i = kept->asked; i < kept->count; i++) {
    uint64_t real;
    if (onstack_profile_maps_is_now(maps, kept->items[i].address, &real))
      batch->items[batch->count++] = (onstack_generated_item){.address = real, .number = (uint32_t)i};
  }
  kept->asked = kept->count;
  onstack_retain(&maps->references);
  return true;
}

void onstack_kept_batch_ask(onstack_kept_batch *batch) {
  qsort(batch->items, batch->count, sizeof(*batch->items), kept_compare_items);
  for (size_t i = 0; i < batch->count; i++) batch->queries[i].address = batch->items[i].address;
  onstack_gdb_jit_find(batch->maps, batch->queries, batch->engines, batch->count, &batch->names);
}

void onstack_kept_batch_store(const onstack_kept_batch *batch, onstack_kept_names *kept) {
  const char *engine = NULL, *copy = NULL;
  for (size_t i = 0; i < batch->count; i++) {
    const char *name = batch->queries[i].name;
    if (!name) continue;
    if (engine != batch->engines[i])
      copy = onstack_profile_arena_text(&kept->text, batch->engines[i], strlen(batch->engines[i]));
    engine = batch->engines[i];
    kept->items[batch->items[i].number].engine = copy;
    kept->items[batch->items[i].number].name = onstack_profile_arena_text(&kept->text, name, strlen(name));
  }
}

void onstack_kept_batch_end(onstack_kept_batch *batch) {
  if (onstack_profile_maps_drop(batch->maps)) onstack_profile_maps_free(batch->maps);
  onstack_profile_arena_release(&batch->names);
  free(batch->items);
  free(batch->queries);
  free(batch->engines);
}

static int kept_give(onstack_symbol_table *table, const onstack_name_context *context) {
  const onstack_kept_name *items = context->kept;
  int error = 0;
  for (size_t i = 0; error == 0 && i < context->kept_count; i++) {
    const onstack_symbol_line line = {.name = items[i].name};
    const uint32_t number = line.name ? onstack_profile_symbols_number(table, items[i].address) : ONSTACK_PROFILE_HASH_NONE;
    if (number == ONSTACK_PROFILE_HASH_NONE || table->lines_of[number].first != ONSTACK_PROFILE_NO_LINE) continue;
    error = onstack_generated_name(table, number, &line, items[i].engine);
  }
  return error;
}

ONSTACK_INTERNAL_DEFINE const onstack_name_source onstack_name_source_kept = {kept_give};
