/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The next set of mappings: those of now, what is gone, and addresses for what came into another file's place. */
#include "profile/maps/maps.h"

#include <stdlib.h>
#include <string.h>

/* A host that loads and unloads without end (plug-ins, code generated into files) must not make us grow without end. */
#define ONSTACK_MAPS_RETIRED_LIMIT 4096u
#define ONSTACK_MAPS_ALIAS_STEP ((uint64_t)4096) /* aliases of neighbours do not touch */

typedef struct unite {
  onstack_profile_maps *maps; /* the set in the making */
  const onstack_profile_maps *previous;
  const onstack_profile_mapping *fresh; /* the mappings of now */
  size_t fresh_count;
  bool *back; /* of the previous set's aliases: it lies there again */
  uint64_t next_alias;
} unite;

typedef bool (*unite_part)(unite *set, const onstack_profile_mapping *mapping, uint64_t start, uint64_t limit);

static bool unite_is_alias(const onstack_profile_maps *maps, size_t item) {
  return item >= maps->alias_first && item - maps->alias_first < maps->alias_count;
}

/* A file whose name is gone has no stamp any more. */
static bool unite_same_stamp(const onstack_elf_stamp *a, const onstack_elf_stamp *b) {
  return a->inode == 0 || b->inode == 0 ||
         (a->inode == b->inode && a->bytes == b->bytes && a->modified_ns == b->modified_ns);
}

/* Whether both show the same file at the same place, wherever they begin and end. */
static bool unite_same_file(const onstack_profile_mapping *a, const onstack_profile_mapping *b) {
  return a->real - a->offset == b->real - b->offset && a->device == b->device && a->inode == b->inode &&
         a->build_id.length == b->build_id.length && memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.length) == 0 &&
         unite_same_stamp(&a->stamp, &b->stamp) && strcmp(a->path, b->path) == 0;
}

static onstack_profile_mapping *unite_append(unite *set, const onstack_profile_mapping *from, uint64_t start,
                                             uint64_t limit) {
  onstack_profile_mapping part = *from;
  part.start = start;
  part.limit = limit;
  part.real = onstack_profile_mapping_real(from, start);
  part.offset = from->offset + (start - from->start);
  return onstack_profile_maps_append(set->maps, &part, from->path, strlen(from->path));
}

static bool unite_keep(unite *set, const onstack_profile_mapping *mapping, uint64_t start, uint64_t limit) {
  return unite_append(set, mapping, start, limit);
}

static bool unite_retire(unite *set, const onstack_profile_mapping *gone, uint64_t start, uint64_t limit) {
  onstack_profile_mapping *part = unite_append(set, gone, start, limit);
  if (!part) return false;
  part->retired = true;
  part->image = 0;
  return true;
}

/* A part of a file that lay at its own address. The first `now` items of the set are those of now. */
static bool unite_retire_plain(unite *set, size_t now, const onstack_profile_mapping *gone, uint64_t start, uint64_t limit) {
  if (set->maps->count - now < ONSTACK_MAPS_RETIRED_LIMIT) return unite_retire(set, gone, start, limit);
  set->maps->full = true;
  set->maps->forgotten++;
  return true;
}

/* The address that the part had when it lay there before, or a new one. */
static uint64_t unite_alias_address(unite *set, const onstack_profile_mapping *mapping, uint64_t start, uint64_t limit) {
  const onstack_profile_maps *previous = set->previous;
  for (size_t i = 0; i < previous->alias_count; i++) {
    const onstack_profile_mapping *known = &previous->items[previous->alias_first + i];
    if (known->real != start || known->limit - known->start != limit - start || !unite_same_file(known, mapping)) continue;
    set->back[i] = true;
    return known->start;
  }
  uint64_t address = set->next_alias;
  set->next_alias += limit - start + ONSTACK_MAPS_ALIAS_STEP;
  return address;
}

static bool unite_alias(unite *set, const onstack_profile_mapping *mapping, uint64_t start, uint64_t limit) {
  if (set->maps->count >= set->fresh_count + 2 * ONSTACK_MAPS_RETIRED_LIMIT) {
    set->maps->full = true;
    return true;
  }
  onstack_profile_mapping *part = unite_append(set, mapping, start, limit);
  if (!part) return false;
  part->start = unite_alias_address(set, mapping, start, limit);
  part->limit = part->start + (limit - start);
  part->latest = true;
  set->maps->alias_count++;
  return true;
}

/* Cuts a mapping of now into what lies where another file was known, and the rest. */
static bool unite_cut(unite *set, const onstack_profile_mapping *mapping, unite_part other, unite_part rest) {
  const onstack_profile_maps *previous = set->previous;
  uint64_t at = mapping->start;
  for (size_t i = 0; i < previous->count && at < mapping->limit; i++) {
    const onstack_profile_mapping *known = &previous->items[i];
    if (unite_is_alias(previous, i) || known->limit <= at || !onstack_profile_mapping_is_file(known) ||
        unite_same_file(known, mapping))
      continue;
    if (known->start >= mapping->limit) break;
    uint64_t start = known->start > at ? known->start : at;
    uint64_t limit = known->limit < mapping->limit ? known->limit : mapping->limit;
    if (rest && start > at && !rest(set, mapping, at, start)) return false;
    if (other && !other(set, mapping, start, limit)) return false;
    at = limit;
  }
  return !rest || at >= mapping->limit || rest(set, mapping, at, mapping->limit);
}

/*
 * Adds what of `gone` no mapping of now covers. The first `now` items of the set are those of now; those before
 * *cursor lie below everything that is still to come, since both lists are sorted.
 */
static bool unite_gaps(unite *set, size_t now, size_t *cursor, const onstack_profile_mapping *gone) {
  uint64_t start = gone->start;
  while (*cursor < now && set->maps->items[*cursor].limit <= start) ++*cursor;
  for (size_t i = *cursor; i < now && start < gone->limit; i++) {
    uint64_t cover_start = set->maps->items[i].start, cover_limit = set->maps->items[i].limit;
    if (cover_start >= gone->limit) break;
    if (cover_start > start && !unite_retire_plain(set, now, gone, start, cover_start)) return false;
    start = cover_limit;
  }
  return start >= gone->limit || unite_retire_plain(set, now, gone, start, gone->limit);
}

static bool unite_plain(unite *set) {
  for (size_t i = 0; i < set->fresh_count; i++) {
    if (!unite_cut(set, &set->fresh[i], NULL, unite_keep)) return false;
  }
  size_t now = set->maps->count, cursor = 0;
  for (size_t i = 0; i < set->previous->count; i++) {
    if (unite_is_alias(set->previous, i)) continue;
    /* Generated code that is gone has no name to keep. */
    const onstack_profile_mapping *known = &set->previous->items[i];
    if (onstack_profile_mapping_is_file(known) && !unite_gaps(set, now, &cursor, known)) return false;
  }
  return true;
}

static bool unite_is_covered(const unite *set, const onstack_profile_mapping *alias) {
  for (size_t i = 0; i < set->fresh_count; i++) {
    const onstack_profile_mapping *fresh = &set->fresh[i];
    if (fresh->start < alias->real + (alias->limit - alias->start) && alias->real < fresh->limit) return true;
  }
  return false;
}

static bool unite_aliases(unite *set) {
  for (size_t i = 0; i < set->fresh_count; i++) {
    if (!unite_cut(set, &set->fresh[i], unite_alias, NULL)) return false;
  }
  for (size_t i = 0; i < set->previous->alias_count; i++) {
    const onstack_profile_mapping *known = &set->previous->items[set->previous->alias_first + i];
    if (set->back[i]) continue;
    if (!unite_retire(set, known, known->start, known->limit)) return false;
    set->maps->items[set->maps->count - 1].latest = known->latest && !unite_is_covered(set, known);
    set->maps->alias_count++;
  }
  return true;
}

static int unite_compare(const void *a, const void *b) {
  const onstack_profile_mapping *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

bool onstack_profile_maps_unite(onstack_profile_maps *maps, const onstack_profile_maps *previous) {
  unite set = {.maps = maps, .previous = previous, .fresh = maps->items, .fresh_count = maps->count};
  onstack_profile_mapping *fresh = maps->items;
  set.back = calloc(previous->alias_count + 1, sizeof(*set.back));
  const onstack_profile_mapping *last =
      previous->alias_count == 0 ? NULL : &previous->items[previous->alias_first + previous->alias_count - 1];
  set.next_alias = !last ? ONSTACK_MAPS_ALIAS : last->limit + ONSTACK_MAPS_ALIAS_STEP;
  maps->items = NULL;
  maps->count = maps->capacity = 0;
  maps->full = previous->full;
  maps->forgotten = previous->forgotten;
  bool good = set.back && unite_plain(&set) && unite_aliases(&set);
  if (maps->count > 0) qsort(maps->items, maps->count, sizeof(*maps->items), unite_compare);
  while (maps->alias_first < maps->count && maps->items[maps->alias_first].start < ONSTACK_MAPS_ALIAS) maps->alias_first++;
  free(set.back);
  free(fresh);
  return good;
}
