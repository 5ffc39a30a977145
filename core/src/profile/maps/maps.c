/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/maps.h"

#include "base/atomics.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

static uint64_t maps_program_entry(void) {
#ifdef __linux__
  return getauxval(AT_ENTRY);
#else
  return 0;
#endif
}

onstack_profile_mapping *onstack_profile_maps_append(onstack_profile_maps *maps, const onstack_profile_mapping *mapping,
                                                     const char *path, size_t path_length) {
  void *items = onstack_profile_grow(maps->items, &maps->capacity, maps->count + 1, sizeof(*mapping));
  if (!items) return NULL;
  maps->items = items;
  onstack_profile_mapping *copy = &maps->items[maps->count];
  *copy = *mapping;
  copy->path = onstack_profile_arena_text(&maps->arena, path, path_length);
  if (!copy->path) return NULL;
  maps->count++;
  return copy;
}

static bool maps_same(const onstack_profile_mapping *a, const onstack_profile_mapping *b) {
  return a->start == b->start && a->limit == b->limit && a->offset == b->offset && a->device == b->device &&
         a->inode == b->inode && strcmp(a->path, b->path) == 0;
}

/* Build id and addresses of an image: from memory, or, where memory cannot be read (seccomp, emulators), the file. */
static void maps_identify(onstack_profile_mapping *mapping, const onstack_profile_maps *previous) {
  const onstack_profile_mapping *known = !previous ? NULL : onstack_profile_maps_find(previous, mapping->start);
  if (known && !known->retired && maps_same(known, mapping)) {
    mapping->build_id = known->build_id;
    mapping->stamp = known->stamp;
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
  bool stamped = mapping->build_id.length == 0 && onstack_profile_mapping_is_file(mapping) && !mapping->deleted;
  if (stamped) mapping->stamp = onstack_elf_stamp_of(mapping->path);
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
    *image =
        (maps_image){.start = line->start, .bytes = line->limit - line->start, .device = line->device, .inode = line->inode};
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
                                       .real = line.start,
                                       .limit = line.limit,
                                       .offset = line.offset,
                                       .device = line.device,
                                       .inode = line.inode,
                                       .image = image.start,
                                       .image_bytes = image.bytes,
                                       .main = entry >= line.start && entry < line.limit,
                                       .deleted = line.deleted};
    onstack_profile_mapping *added = onstack_profile_maps_append(maps, &mapping, line.path, line.path_length);
    if (!added) return false;
    maps_identify(added, previous);
  }
  return true;
}

static bool maps_read_loader(onstack_profile_maps *maps, const onstack_profile_maps *previous) {
  if (!onstack_profile_maps_ask_loader(maps)) return false;
  for (size_t i = 0; i < maps->count; i++) maps_identify(&maps->items[i], previous);
  return true;
}

onstack_profile_maps *onstack_profile_maps_read(const onstack_profile_maps *previous, bool keep_retired, bool changed) {
  onstack_profile_maps *maps = calloc(1, sizeof(*maps));
  if (!maps) return NULL;
  maps->references = 1;
  char *text = NULL;
  const onstack_profile_maps *known = changed ? NULL : previous;
  int error = onstack_maps_text_read(&text);
  bool good = error == 0 ? maps_read_now(maps, known, text) : maps_read_loader(maps, known);
  free(text);
  if (good && previous && keep_retired) good = onstack_profile_maps_unite(maps, previous);
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
