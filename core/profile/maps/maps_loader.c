/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the loader knows of the mappings, for where there is no /proc: the code of the program and its libraries. */
#include "profile/maps/maps.h"

#ifdef __linux__
#include "platform/loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef struct loader_scan {
  onstack_profile_maps *maps;
  uint64_t page, entry;
  bool failed;
} loader_scan;

static const char *loader_path(const struct dl_phdr_info *info) {
  if (info->dlpi_name && strncmp(info->dlpi_name, "linux-vdso", 10) == 0) return "[vdso]";
  if (info->dlpi_name && info->dlpi_name[0] != '\0') return info->dlpi_name;
  /* The program has no name there; this is the one that it was started by. */
  const char *started = (const char *)getauxval(AT_EXECFN);
  return started ? started : "";
}

/* The start of the file in memory, which lies in the first segment. */
static void loader_find_image(const struct dl_phdr_info *info, onstack_profile_mapping *mapping) {
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || segment->p_offset != 0) continue;
    mapping->image = info->dlpi_addr + segment->p_vaddr;
    mapping->image_bytes = segment->p_filesz;
    return;
  }
}

static int loader_visit(struct dl_phdr_info *info, size_t size, void *data) {
  loader_scan *scan = data;
  const char *path = loader_path(info);
  (void)size;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
    uint64_t first = info->dlpi_addr + segment->p_vaddr, inside = first & (scan->page - 1);
    if (segment->p_offset < inside || segment->p_memsz == 0) continue;
    onstack_profile_mapping mapping = {.start = first - inside,
                                       .real = first - inside,
                                       .limit = (first + segment->p_memsz + scan->page - 1) & ~(scan->page - 1),
                                       .offset = segment->p_offset - inside};
    mapping.main = scan->entry >= mapping.start && scan->entry < mapping.limit;
    loader_find_image(info, &mapping);
    scan->failed = !onstack_profile_maps_append(scan->maps, &mapping, path, strlen(path));
    if (scan->failed) return 1;
  }
  return 0;
}

static int loader_compare(const void *a, const void *b) {
  const onstack_profile_mapping *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

/* Names are as the program gave them: relative ones to its directory of then, which most often is that of now. */
static bool loader_complete_path(onstack_profile_maps *maps, onstack_profile_mapping *mapping) {
  if (mapping->path[0] == '/' || !strchr(mapping->path, '/')) return true;
  char *path = realpath(mapping->path, NULL);
  if (!path) return true;
  mapping->path = onstack_profile_arena_text(&maps->arena, path, strlen(path));
  free(path);
  return mapping->path;
}

bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps) {
  loader_scan scan = {.maps = maps, .page = (uint64_t)sysconf(_SC_PAGESIZE), .entry = getauxval(AT_ENTRY)};
  onstack_loader_each(loader_visit, &scan);
  if (maps->count > 0) qsort(maps->items, maps->count, sizeof(*maps->items), loader_compare);
  size_t kept = 0;
  for (size_t i = 0; !scan.failed && i < maps->count; i++) {
    if (kept > 0 && maps->items[i].start < maps->items[kept - 1].limit) continue; /* no true list has this */
    maps->items[kept] = maps->items[i];
    scan.failed = !loader_complete_path(maps, &maps->items[kept++]);
  }
  maps->count = kept;
  return !scan.failed;
}

/* The first of the sorted mappings that ends behind an address. */
static size_t loader_first_behind(const onstack_profile_maps *maps, uint64_t address) {
  size_t low = 0, high = maps->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (maps->items[middle].limit <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* An object's program headers lie at the beginning of its file. */
static int loader_number(const struct dl_phdr_info *info, uint64_t number, void *data) {
  onstack_profile_maps *maps = data;
  const uint64_t headers = (uint64_t)(uintptr_t)info->dlpi_phdr;
  for (size_t i = loader_first_behind(maps, headers); i < maps->count; i++) {
    onstack_profile_mapping *mapping = &maps->items[i];
    if (headers - mapping->image >= mapping->image_bytes) break;
    mapping->load = number;
  }
  return 0;
}

void onstack_profile_maps_number(onstack_profile_maps *maps) { onstack_loader_each_load(loader_number, maps); }
#else
void onstack_profile_maps_number(onstack_profile_maps *maps) { (void)maps; }

bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps) {
  (void)maps;
  return true;
}
#endif
