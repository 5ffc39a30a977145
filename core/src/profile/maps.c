/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps.h"

#include "base/atomics.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

/* A host that loads and unloads without end (plug-ins, code generated into files) must not make us grow without end. */
#define ONSTACK_MAPS_RETIRED_LIMIT 4096u

static uint64_t maps_program_entry(void) {
#ifdef __linux__
  return getauxval(AT_ENTRY);
#else
  return 0;
#endif
}

/* Returns the copy, whose path is in the set's arena, or NULL. */
static onstack_profile_mapping *maps_append(onstack_profile_maps *maps, const onstack_profile_mapping *mapping,
                                            const char *path, size_t path_length) {
  void *items = onstack_profile_grow(maps->items, &maps->capacity, maps->count + 1, sizeof(*mapping));
  if (items == NULL) return NULL;
  maps->items = items;
  onstack_profile_mapping *copy = &maps->items[maps->count];
  *copy = *mapping;
  copy->path = onstack_profile_arena_text(&maps->arena, path, path_length);
  if (copy->path == NULL) return NULL;
  maps->count++;
  return copy;
}

static bool maps_same(const onstack_profile_mapping *a, const onstack_profile_mapping *b) {
  return a->start == b->start && a->limit == b->limit && a->offset == b->offset && a->device == b->device &&
         a->inode == b->inode && strcmp(a->path, b->path) == 0;
}

/* Build id and addresses of an image: from memory, or, where memory cannot be read (seccomp, emulators), the file. */
static void maps_identify(onstack_profile_mapping *mapping, const onstack_profile_maps *previous) {
  const onstack_profile_mapping *known = previous == NULL ? NULL : onstack_profile_maps_find(previous, mapping->start);
  if (known != NULL && !known->retired && maps_same(known, mapping)) {
    mapping->build_id = known->build_id;
    mapping->vaddr_difference = known->vaddr_difference;
    return;
  }
  onstack_elf_file image;
  bool open = mapping->image != 0 && onstack_elf_open_memory(&image, mapping->image, mapping->image_bytes) == 0;
  if (!open && onstack_profile_mapping_is_file(mapping) && !mapping->deleted) {
    open = onstack_elf_open_file(&image, mapping->path) == 0;
  }
  if (!open) return;
  onstack_elf_read_build_id(&image, &mapping->build_id);
  onstack_elf_code_to_vaddr(&image, mapping->offset, mapping->limit - mapping->start, &mapping->vaddr_difference);
  onstack_elf_close(&image);
}

/* The start of the file whose mappings follow each other in the text. */
typedef struct maps_image {
  uint64_t start;
  uint64_t bytes;
  uint64_t device;
  uint64_t inode;
} maps_image;

static void maps_track_image(maps_image *image, const onstack_maps_line *line) {
  /* The kernel's own images ("[vdso]") have no inode and one mapping. */
  bool own = line->inode == 0 && line->executable && line->path_length > 0 && line->path[0] == '[';
  if (line->offset == 0 && (line->inode != 0 || own)) {
    *image = (maps_image){
        .start = line->start, .bytes = line->limit - line->start, .device = line->device, .inode = line->inode};
  } else if (line->inode == 0 || line->inode != image->inode || line->device != image->device) {
    *image = (maps_image){0};
  }
}

static bool maps_read_now(onstack_profile_maps *maps, const onstack_profile_maps *previous, char *text) {
  onstack_maps_line line;
  maps_image image = {0};
  uint64_t entry = maps_program_entry(), last = 0;
  while (onstack_maps_text_next(&text, &line)) {
    if (line.start < last) continue; /* the list changed between two reads */
    last = line.limit;
    maps_track_image(&image, &line);
    if (!line.executable) continue;
    onstack_profile_mapping mapping = {.start = line.start,
                                       .limit = line.limit,
                                       .offset = line.offset,
                                       .device = line.device,
                                       .inode = line.inode,
                                       .image = image.start,
                                       .image_bytes = image.bytes,
                                       .main = entry >= line.start && entry < line.limit,
                                       .deleted = line.deleted};
    onstack_profile_mapping *added = maps_append(maps, &mapping, line.path, line.path_length);
    if (added == NULL) return false;
    maps_identify(added, previous);
  }
  return true;
}

/* Adds the part [start, limit) of a mapping that is gone. */
static bool maps_retire(onstack_profile_maps *maps, const onstack_profile_mapping *gone, uint64_t start,
                        uint64_t limit) {
  onstack_profile_mapping part = *gone;
  part.start = start;
  part.limit = limit;
  part.offset = gone->offset + (start - gone->start);
  part.retired = true;
  part.image = 0;
  return maps_append(maps, &part, gone->path, strlen(gone->path)) != NULL;
}

/*
 * Adds what of `gone` no mapping of now covers. The first `now` items of the set are those of now; those before
 * *cursor lie below everything that is still to come, since both lists are sorted.
 */
static bool maps_retire_gaps(onstack_profile_maps *maps, size_t now, size_t *cursor,
                             const onstack_profile_mapping *gone) {
  uint64_t start = gone->start;
  while (*cursor < now && maps->items[*cursor].limit <= start) ++*cursor;
  for (size_t i = *cursor; i < now && start < gone->limit; i++) {
    uint64_t cover_start = maps->items[i].start, cover_limit = maps->items[i].limit;
    if (cover_start >= gone->limit) break;
    if (cover_start > start && !maps_retire(maps, gone, start, cover_start)) return false;
    start = cover_limit;
  }
  return start >= gone->limit || maps_retire(maps, gone, start, gone->limit);
}

static int maps_compare(const void *a, const void *b) {
  const onstack_profile_mapping *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

static bool maps_unite(onstack_profile_maps *maps, const onstack_profile_maps *previous) {
  size_t now = maps->count, cursor = 0;
  for (size_t i = 0; i < previous->count && maps->count - now < ONSTACK_MAPS_RETIRED_LIMIT; i++) {
    /* Generated code that is gone has no name to keep. */
    if (!onstack_profile_mapping_is_file(&previous->items[i])) continue;
    if (!maps_retire_gaps(maps, now, &cursor, &previous->items[i])) return false;
  }
  if (maps->count > now) qsort(maps->items, maps->count, sizeof(*maps->items), maps_compare);
  return true;
}

onstack_profile_maps *onstack_profile_maps_read(const onstack_profile_maps *previous, bool keep_retired) {
  onstack_profile_maps *maps = calloc(1, sizeof(*maps));
  if (maps == NULL) return NULL;
  maps->references = 1;
  char *text = NULL;
  bool good = onstack_maps_text_read(&text) != 0 || maps_read_now(maps, previous, text);
  free(text);
  if (good && previous != NULL && keep_retired) good = maps_unite(maps, previous);
  if (good) return maps;
  onstack_profile_maps_free(maps);
  return NULL;
}

bool onstack_profile_maps_drop(onstack_profile_maps *maps) { return onstack_release_was_last(&maps->references); }

void onstack_profile_maps_free(onstack_profile_maps *maps) {
  onstack_profile_arena_release(&maps->arena);
  free(maps->items);
  free(maps);
}

const onstack_profile_mapping *onstack_profile_maps_find(const onstack_profile_maps *maps, uint64_t address) {
  size_t low = 0, high = maps->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (maps->items[middle].limit <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == maps->count || maps->items[low].start > address) return NULL;
  return &maps->items[low];
}
