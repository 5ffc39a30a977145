/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/maps.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* ---- one mapping, one address ---- */

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

/* The first mapping that ends behind an address. */
static size_t maps_first_behind(const onstack_profile_mapping *items, size_t count, uint64_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (items[middle].limit <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const onstack_profile_mapping *onstack_profile_maps_find(const onstack_profile_maps *maps, uint64_t address) {
  const size_t at = maps_first_behind(maps->items, maps->count, address);
  return at == maps->count || maps->items[at].start > address ? NULL : &maps->items[at];
}

bool onstack_profile_maps_is_now(const onstack_profile_maps *maps, uint64_t address) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  return address != ONSTACK_MAPS_UNKNOWN && !(mapping && mapping->replaced);
}

/* ---- a set ---- */

static int maps_compare(const void *a, const void *b) {
  const onstack_profile_mapping *left = a, *right = b;
  return left->start < right->start ? -1 : left->start > right->start;
}

static bool maps_append(onstack_profile_maps *maps, const onstack_profile_mapping *mapping, const char *path,
                        size_t path_length) {
  void *items = onstack_profile_grow(maps->items, &maps->capacity, maps->count + 1, sizeof(*mapping));
  if (!items) return false;
  maps->items = items;
  onstack_profile_mapping *copy = &maps->items[maps->count];
  *copy = *mapping;
  copy->path = onstack_profile_arena_text(&maps->arena, path, path_length);
  if (!copy->path) return false;
  maps->count++;
  return true;
}

bool onstack_profile_maps_drop(onstack_profile_maps *maps) { return onstack_release_was_last(&maps->references); }

void onstack_profile_maps_free(onstack_profile_maps *maps) {
  onstack_profile_arena_release(&maps->arena);
  free(maps->items);
  free(maps);
}

/* ---- what the loader knows of the mappings, for where there is no /proc: the code of the program and its libraries ---- */

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
                                       .limit = (first + segment->p_memsz + scan->page - 1) & ~(scan->page - 1),
                                       .offset = segment->p_offset - inside};
    mapping.main = scan->entry >= mapping.start && scan->entry < mapping.limit;
    loader_find_image(info, &mapping);
    scan->failed = !maps_append(scan->maps, &mapping, path, strlen(path));
    if (scan->failed) return 1;
  }
  return 0;
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
  if (maps->count > 0) qsort(maps->items, maps->count, sizeof(*maps->items), maps_compare);
  size_t kept = 0;
  for (size_t i = 0; !scan.failed && i < maps->count; i++) {
    if (kept > 0 && maps->items[i].start < maps->items[kept - 1].limit) continue; /* no true list has this */
    maps->items[kept] = maps->items[i];
    scan.failed = !loader_complete_path(maps, &maps->items[kept++]);
  }
  maps->count = kept;
  return !scan.failed;
}

typedef struct loads_visit {
  onstack_profile_maps *maps;
  bool compare; /* with the numbers that the mappings have; false: gives them their numbers */
  onstack_loader_counts counts;
} loads_visit;

/* An object's program headers lie at the beginning of its file. */
static int loads_note(const struct dl_phdr_info *info, uint64_t number, void *data) {
  loads_visit *visit = data;
  const onstack_profile_maps *maps = visit->maps;
  const uint64_t headers = (uint64_t)(uintptr_t)info->dlpi_phdr;
  visit->counts = onstack_loader_counts_in(info);
  for (size_t i = maps_first_behind(maps->items, maps->count, headers); i < maps->count; i++) {
    onstack_profile_mapping *mapping = &maps->items[i];
    if (mapping->retired) continue;
    if (headers - mapping->image >= mapping->image_bytes) break;
    if (!visit->compare) mapping->load = number;
    mapping->loaded = number != 0 && mapping->load == number;
  }
  return 0;
}

static onstack_loader_counts loads_each(onstack_profile_maps *maps, bool compare) {
  loads_visit visit = {.maps = maps, .compare = compare};
  onstack_loader_each_load(loads_note, &visit);
  return visit.counts;
}
#else
bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps) {
  (void)maps;
  return true;
}

static onstack_loader_counts loads_each(onstack_profile_maps *maps, bool compare) {
  (void)maps, (void)compare;
  return (onstack_loader_counts){0, 0};
}
#endif

/* ---- the mappings of now ---- */

static uint64_t maps_program_entry(void) {
#ifdef __linux__
  return getauxval(AT_ENTRY);
#else
  return 0;
#endif
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
                                  .limit = mapping->high,
                                  .offset = mapping->offset,
                                  .device = mapping->device,
                                  .inode = mapping->inode,
                                  .image = scan->image,
                                  .image_bytes = scan->image_bytes,
                                  .main = scan->entry >= mapping->low && scan->entry < mapping->high,
                                  .deleted = mapping->deleted};
  scan->failed = !maps_append(scan->maps, &code, mapping->path, mapping->path_length);
}

static bool maps_read_now(onstack_profile_maps *maps) {
  maps_scan scan = {.maps = maps, .entry = maps_program_entry()};
  if (onstack_proc_maps_each(maps_visit, &scan) == 0) return !scan.failed;
  maps->count = 0;
  return onstack_profile_maps_ask_loader(maps);
}

static bool maps_read(onstack_profile_maps *maps, const onstack_profile_maps *previous, bool changed) {
  if (!maps_read_now(maps)) return false;
  loads_each(maps, false);
  for (size_t i = 0; i < maps->count; i++) maps_identify(&maps->items[i], previous, changed);
  return true;
}

/* ---- what has gone, and what came into its place ---- */

/* A host that loads and unloads without end (plug-ins, code generated into files) must not make us grow without end. */
#define MAPS_RETIRED_LIMIT 4096u

/* A file whose name is gone has no stamp any more. */
static bool unite_same_stamp(const onstack_elf_stamp *a, const onstack_elf_stamp *b) {
  return a->inode == 0 || b->inode == 0 ||
         (a->inode == b->inode && a->bytes == b->bytes && a->modified_ns == b->modified_ns);
}

/* Whether both show the same file at the same place, wherever they begin and end. */
static bool unite_same_file(const onstack_profile_mapping *a, const onstack_profile_mapping *b) {
  return a->start - a->offset == b->start - b->offset && a->device == b->device && a->inode == b->inode &&
         a->build_id.length == b->build_id.length && memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.length) == 0 &&
         unite_same_stamp(&a->stamp, &b->stamp) && strcmp(a->path, b->path) == 0;
}

/* Adds a mapping that was known, if no mapping of now shows the same file there. A file of generated code gives way to what
   covers it: it has no names to keep. */
static bool unite_known(onstack_profile_maps *maps, onstack_profile_mapping *fresh, size_t count,
                        const onstack_profile_mapping *known, uint64_t until_ns) {
  bool same = false, covered = false;
  for (size_t i = maps_first_behind(fresh, count, known->start); i < count && fresh[i].start < known->limit; i++) {
    covered = true;
    if (!unite_same_file(known, &fresh[i])) continue;
    same = true;
    fresh[i].lost_ns = known->lost_ns;
    fresh[i].back_ns = known->back_ns;
  }
  if (same || (covered && !onstack_profile_mapping_is_image(known))) return true;
  if (maps->count == MAPS_RETIRED_LIMIT) {
    maps->forgotten++;
    return true;
  }
  onstack_profile_mapping gone = *known;
  gone.retired = true;
  gone.replaced = covered;
  gone.image = 0;
  if (covered && gone.back_ns == 0) gone.lost_ns = until_ns;
  if (covered) gone.back_ns = UINT64_MAX;
  return maps_append(maps, &gone, gone.path, strlen(gone.path));
}

static bool unite_append_part(onstack_profile_maps *maps, const onstack_profile_mapping *mapping, uint64_t start,
                              uint64_t limit) {
  onstack_profile_mapping part = *mapping;
  part.start = start;
  part.limit = limit;
  part.offset += start - mapping->start;
  return start >= limit || maps_append(maps, &part, part.path, strlen(part.path));
}

/* Adds what of a mapping of now none of the first `gone` items covers. */
static bool unite_fresh(onstack_profile_maps *maps, size_t gone, const onstack_profile_mapping *mapping) {
  uint64_t start = mapping->start;
  for (size_t i = maps_first_behind(maps->items, gone, start); i < gone && maps->items[i].start < mapping->limit; i++) {
    const uint64_t limit = maps->items[i].limit;
    if (!unite_append_part(maps, mapping, start, maps->items[i].start)) return false;
    start = limit;
  }
  return unite_append_part(maps, mapping, start, mapping->limit);
}

bool onstack_profile_maps_unite(onstack_profile_maps *maps, const onstack_profile_maps *previous, uint64_t until_ns) {
  onstack_profile_mapping *fresh = maps->items;
  const size_t count = maps->count;
  bool good = true;
  maps->items = NULL;
  maps->count = maps->capacity = 0;
  maps->forgotten = previous->forgotten;
  for (size_t i = 0; good && i < previous->count; i++) {
    const onstack_profile_mapping *known = &previous->items[i];
    if (onstack_profile_mapping_is_file(known)) good = unite_known(maps, fresh, count, known, until_ns);
  }
  const size_t gone = maps->count;
  for (size_t i = 0; good && i < count; i++) good = unite_fresh(maps, gone, &fresh[i]);
  if (maps->count > 0) qsort(maps->items, maps->count, sizeof(*maps->items), maps_compare);
  free(fresh);
  return good;
}

/* ---- over time ---- */

/* Objects that come while the text is read: the text may have half of them. */
#define HISTORY_TRIES 3

static onstack_loader_counts history_count(void) {
  onstack_loader_counts counts = {0, 0};
  onstack_loader_count(&counts);
  return counts;
}

/* An object that was loaded before the text was read, and afterwards, was there meanwhile: its mappings are its own. Returns
   true if the loader has numbers. */
static bool history_check_loads(onstack_profile_maps *maps, const onstack_loader_counts *before) {
  bool any = false;
  for (size_t i = 0; i < maps->count; i++) {
    onstack_profile_mapping *mapping = &maps->items[i];
    any |= mapping->load != 0;
    if (!onstack_load_is_before(mapping->load, before)) mapping->load = 0;
  }
  return any;
}

/* A set with one reference; NULL: no memory. */
static onstack_profile_maps *history_make(const onstack_profile_history *history, bool keep_retired, bool changed) {
  onstack_profile_maps *maps = calloc(1, sizeof(*maps));
  if (!maps) return NULL;
  maps->references = 1;
  bool good = maps_read(maps, history->maps, changed);
  if (good && keep_retired && history->maps) good = onstack_profile_maps_unite(maps, history->maps, history->until_ns);
  if (good) return maps;
  onstack_profile_maps_free(maps);
  return NULL;
}

onstack_profile_maps *onstack_profile_maps_read(void) {
  return history_make(&(const onstack_profile_history){.until_ns = 0}, false, false);
}

int onstack_profile_history_open(onstack_profile_history *history) {
  *history = (onstack_profile_history){.loaded = history_count(), .until_ns = onstack_monotonic_ns()};
  history->maps = history_make(history, false, false);
  if (!history->maps) return -ENOMEM;
  history_check_loads(history->maps, &history->loaded);
  return 0;
}

void onstack_profile_history_close(onstack_profile_history *history) {
  if (onstack_profile_maps_drop(history->maps)) onstack_profile_maps_free(history->maps);
}

void onstack_profile_history_after_fork(onstack_profile_history *history) {
  history->loaded = history->compared = (onstack_loader_counts){0, 0};
  history->until_ns = 0;
}

bool onstack_profile_history_has_changed(onstack_profile_history *history) {
  const uint64_t now = onstack_monotonic_ns();
  const onstack_loader_counts counts = history_count();
  if (onstack_loader_same(&counts, &history->loaded)) {
    if (history->until_ns != 0) history->until_ns = now;
    return false;
  }
  if (onstack_loader_same(&counts, &history->compared)) return true;
  for (size_t i = 0; i < history->maps->count; i++) history->maps->items[i].loaded = false;
  history->compared = loads_each(history->maps, true);
  return true;
}

bool onstack_profile_history_still_holds(const onstack_profile_history *history, uint64_t address) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(history->maps, address);
  return mapping && !mapping->retired && mapping->loaded;
}

onstack_profile_maps *onstack_profile_history_read(onstack_profile_history *history, bool keep_retired) {
  onstack_loader_counts before, after = history_count();
  bool steady = false;
  onstack_profile_maps *now = NULL;
  for (int i = 0; i < HISTORY_TRIES && !steady; i++) {
    if (now) onstack_profile_maps_free(now);
    before = after;
    now = history_make(history, keep_retired, !onstack_loader_same(&before, &history->loaded));
    if (!now) return NULL;
    after = history_count();
    steady = onstack_loader_same(&before, &after);
    if (history_check_loads(now, &before)) break; /* what stayed is known, and samples elsewhere have another set read */
  }
  /* Where it never came to rest, the set is true of no time, and the next sample has it read again. */
  onstack_profile_maps *old = history->maps;
  history->maps = now;
  history->loaded = before;
  history->compared = (onstack_loader_counts){0, 0};
  history->until_ns = steady ? onstack_monotonic_ns() : 0;
  for (size_t i = 0; steady && i < now->count; i++) {
    onstack_profile_mapping *mapping = &now->items[i];
    if (!mapping->retired && mapping->back_ns == UINT64_MAX) mapping->back_ns = history->until_ns;
  }
  return onstack_profile_maps_drop(old) ? old : NULL;
}

uint64_t onstack_profile_history_resolve(const onstack_profile_history *history, uint64_t address, uint64_t time_ns) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(history->maps, address);
  if (!mapping || mapping->back_ns == 0) return address;
  if (time_ns == 0) return mapping->replaced ? ONSTACK_MAPS_UNKNOWN : address;
  return time_ns <= mapping->lost_ns || time_ns >= mapping->back_ns ? address : ONSTACK_MAPS_UNKNOWN;
}
