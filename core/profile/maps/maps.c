/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/maps.h"

#include "platform/atomics.h"
#include "platform/proc.h"

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
static void maps_identify(onstack_profile_mapping *mapping, const onstack_profile_maps *previous, bool changed) {
  const onstack_profile_mapping *known = !previous ? NULL : onstack_profile_maps_find(previous, mapping->start);
  const bool is_known = known && (!changed || (known->load != 0 && known->load == mapping->load));
  if (is_known && !known->retired && maps_same(known, mapping)) {
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

typedef struct maps_scan {
  onstack_profile_maps *maps;
  /* The start of the file whose mappings follow each other. */
  uint64_t image, image_bytes, device, inode;
  uint64_t entry, last;
  bool failed;
} maps_scan;

static void maps_track_image(maps_scan *scan, const onstack_mapping *mapping) {
  /* The kernel's own images ("[vdso]") have no inode and one mapping. */
  bool own = mapping->inode == 0 && mapping->executable && mapping->path[0] == '[';
  if (mapping->offset == 0 && (mapping->inode != 0 || own)) {
    scan->image = mapping->low;
    scan->image_bytes = mapping->high - mapping->low;
    scan->device = mapping->device;
    scan->inode = mapping->inode;
  } else if (mapping->inode == 0 || mapping->inode != scan->inode || mapping->device != scan->device) {
    scan->image = scan->image_bytes = scan->device = scan->inode = 0;
  }
}

static void maps_visit(void *data, const onstack_mapping *mapping) {
  maps_scan *scan = data;
  if (scan->failed || mapping->low < scan->last) return; /* the list changed between two reads */
  scan->last = mapping->high;
  maps_track_image(scan, mapping);
  if (!mapping->executable) return;
  onstack_profile_mapping code = {.start = mapping->low,
                                  .real = mapping->low,
                                  .limit = mapping->high,
                                  .offset = mapping->offset,
                                  .device = mapping->device,
                                  .inode = mapping->inode,
                                  .image = scan->image,
                                  .image_bytes = scan->image_bytes,
                                  .main = scan->entry >= mapping->low && scan->entry < mapping->high,
                                  .deleted = mapping->deleted};
  scan->failed = !onstack_profile_maps_append(scan->maps, &code, mapping->path, mapping->path_length);
}

static bool maps_read_now(onstack_profile_maps *maps) {
  maps_scan scan = {.maps = maps, .entry = maps_program_entry()};
  if (onstack_proc_maps_each(maps_visit, &scan) == 0) return !scan.failed;
  maps->count = 0;
  return onstack_profile_maps_ask_loader(maps);
}

onstack_profile_maps *onstack_profile_maps_read(const onstack_profile_maps *previous, bool keep_retired, bool changed) {
  onstack_profile_maps *maps = calloc(1, sizeof(*maps));
  if (!maps) return NULL;
  maps->references = 1;
  bool good = maps_read_now(maps);
  if (good) onstack_profile_maps_number(maps);
  for (size_t i = 0; good && i < maps->count; i++) maps_identify(&maps->items[i], previous, changed);
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
