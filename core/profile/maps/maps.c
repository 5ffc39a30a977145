/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/maps.h"

#include "platform/atomics.h"
#include "platform/loader.h"
#include "platform/proc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* What can be asked of one mapping, and of an address. */

bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping) {
  return mapping->path[0] == '/' && mapping->path[1] != '/';
}

bool onstack_profile_mapping_is_image(const onstack_profile_mapping *mapping) {
  return mapping->build_id.length > 0 || mapping->stamp.inode != 0 || mapping->vaddr_difference != 0 ||
         (mapping->deleted && strncmp(mapping->path, "/memfd:", 7) != 0);
}

const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping) {
  const char *slash = strrchr(mapping->path, '/');
  return !slash ? mapping->path : slash + 1;
}

uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address) {
  return address - mapping->start + mapping->offset + mapping->vaddr_difference;
}

uint64_t onstack_profile_mapping_real(const onstack_profile_mapping *mapping, uint64_t address) {
  return address - mapping->start + mapping->real;
}

static bool mapping_alias_covers(const onstack_profile_mapping *alias, uint64_t real) {
  return real >= alias->real && real - alias->real < alias->limit - alias->start;
}

bool onstack_profile_maps_was_replaced(const onstack_profile_maps *maps, uint64_t real) {
  for (size_t i = 0; i < maps->alias_count; i++) {
    if (mapping_alias_covers(&maps->items[maps->alias_first + i], real)) return true;
  }
  return false;
}

uint64_t onstack_profile_maps_place(const onstack_profile_maps *maps, uint64_t real) {
  for (size_t i = 0; i < maps->alias_count; i++) {
    const onstack_profile_mapping *alias = &maps->items[maps->alias_first + i];
    if (alias->latest && mapping_alias_covers(alias, real)) return alias->start + (real - alias->real);
  }
  const onstack_profile_mapping *plain = maps->full ? onstack_profile_maps_find(maps, real) : NULL;
  return plain && plain->retired ? ONSTACK_MAPS_UNKNOWN : real;
}

bool onstack_profile_maps_is_now(const onstack_profile_maps *maps, uint64_t address, uint64_t *real) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  *real = address;
  if (address == ONSTACK_MAPS_UNKNOWN) return false;
  if (!mapping || mapping->start == mapping->real) {
    return !mapping || !mapping->retired || onstack_profile_maps_place(maps, address) == address;
  }
  *real = onstack_profile_mapping_real(mapping, address);
  return !mapping->retired;
}

/* What the loader knows of the mappings, for where there is no /proc: the code of the program and its libraries. */

#ifdef __linux__

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

/* For onstack_profile_maps_read: notes which of the mappings of now belong to which of the loader's objects. */
static void maps_number(onstack_profile_maps *maps) { onstack_loader_each_load(loader_number, maps); }
#else
void maps_number(onstack_profile_maps *maps) { (void)maps; }

bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps) {
  (void)maps;
  return true;
}
#endif

/* The next set of mappings: those of now, what is gone, and addresses for what came into another file's place. */

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

#ifdef __linux__
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
  if (good) maps_number(maps);
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
