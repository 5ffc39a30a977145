/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/gdb_jit.h"

#include "base/process_memory.h"
#include "profile/elf/elf_module.h"
#include "profile/elf/elf_symbols.h"
#include "profile/generated/gdb_jit_places.h"
#include "profile/generated/generated.h"
#include "profile/generated/name_source.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GDB_JIT_TRIES 8u
#define GDB_JIT_ENTRIES 65536u                 /* of one list; what comes behind is not read */
#define GDB_JIT_IMAGE_MOST ((uint64_t)1 << 30) /* bytes */
#define GDB_JIT_READ_MOST ((uint64_t)8 << 30)  /* bytes of images in one list whose symbols are read */

typedef struct gdb_jit_descriptor {
  uint32_t version, action;
  uint64_t relevant, first;
} gdb_jit_descriptor;

typedef struct gdb_jit_entry {
  uint64_t next, previous, image, bytes;
} gdb_jit_entry;

typedef struct gdb_jit {
  onstack_elf_query *queries; /* sorted by address; number 1: its name is final */
  size_t count;
  const char **engines; /* of each query */
  const char *engine;   /* who has the list that is read */
  uint64_t descriptor;
  uint64_t budget;
  size_t skipped; /* images that make no sense or are too many, and lists that came to no rest */
  onstack_profile_arena *names;
} gdb_jit;

static bool gdb_jit_read_entry(uint64_t at, gdb_jit_entry *entry) {
  return (at & 7) == 0 && onstack_process_memory_read(at, entry, sizeof(*entry));
}

/* Whether the list has the entry, as it is, in its place: whoever takes it out begins with its neighbours. */
static bool gdb_jit_holds(const gdb_jit *jit, uint64_t at, gdb_jit_entry *entry) {
  gdb_jit_entry now;
  uint64_t link;
  if (!gdb_jit_read_entry(at, &now) || now.image != entry->image || now.bytes != entry->bytes) return false;
  const uint64_t link_at = now.previous == 0 ? jit->descriptor + offsetof(gdb_jit_descriptor, first)
                                             : now.previous + offsetof(gdb_jit_entry, next);
  if (!onstack_process_memory_read(link_at, &link, sizeof(link)) || link != at) return false;
  entry->next = now.next;
  return true;
}

static bool gdb_jit_has_query(const gdb_jit *jit, uint64_t start, uint64_t bytes) {
  const size_t first = onstack_generated_first(jit->queries, sizeof(*jit->queries), jit->count, start);
  for (size_t i = first; i < jit->count && jit->queries[i].address - start < bytes; i++)
    if (!jit->queries[i].name) return true;
  return false;
}

/* By its code's addresses, without a look at its symbols. */
static bool gdb_jit_is_wanted(const gdb_jit *jit, const onstack_elf_file *image) {
  bool known = false;
  for (uint32_t i = 0; i < image->section_count; i++) {
    const onstack_elf_section *section = &image->sections[i];
    if ((section->flags & ONSTACK_ELF_SECTION_EXECUTABLE) == 0 || section->vaddr == 0) continue;
    if (gdb_jit_has_query(jit, section->vaddr, section->bytes)) return true;
    known = true;
  }
  return !known;
}

static int gdb_jit_find(gdb_jit *jit, const onstack_elf_file *image) {
  int error = onstack_elf_symbols_find(image, ONSTACK_ELF_SECTION_SYMTAB, jit->queries, jit->count, jit->names);
  if (error == 0) error = onstack_elf_symbols_find(image, ONSTACK_ELF_SECTION_DYNSYM, jit->queries, jit->count, jit->names);
  return error;
}

/* What a list says that changed meanwhile is forgotten, and what it said before stays. */
static void gdb_jit_finish(gdb_jit *jit, bool holds) {
  for (size_t i = 0; i < jit->count; i++) {
    if (!jit->queries[i].name || jit->queries[i].number != 0) continue;
    if (holds) {
      jit->queries[i].number = 1;
      jit->engines[i] = jit->engine;
    } else {
      jit->queries[i].name = NULL;
    }
  }
}

/* Whether what lies in the image's place is that image still, by its sections: memory is given out again. */
static bool gdb_jit_is_same(const gdb_jit_entry *entry, const onstack_elf_file *image) {
  onstack_elf_file now;
  if (onstack_elf_open_registered(&now, entry->image, entry->bytes) != 0) return false;
  const bool same =
      now.section_count == image->section_count && now.section_names == image->section_names &&
      (now.section_count == 0 || memcmp(now.sections, image->sections, now.section_count * sizeof(*now.sections)) == 0);
  onstack_elf_close(&now);
  return same;
}

/* Names by the image of an entry. Sets *holds: the list holds it still; entry->next is that of now. */
static int gdb_jit_take(gdb_jit *jit, uint64_t at, gdb_jit_entry *entry, bool *holds) {
  onstack_elf_file image;
  int error = entry->bytes > GDB_JIT_IMAGE_MOST ? -ENOEXEC : onstack_elf_open_registered(&image, entry->image, entry->bytes);
  const bool open = error == 0, fits = open && entry->bytes <= jit->budget;
  const bool wanted = fits && gdb_jit_is_wanted(jit, &image);
  if (wanted) {
    jit->budget -= entry->bytes;
    error = gdb_jit_find(jit, &image);
  }
  *holds = (!wanted || gdb_jit_is_same(entry, &image)) && gdb_jit_holds(jit, at, entry);
  if (wanted) gdb_jit_finish(jit, *holds);
  if (open) onstack_elf_close(&image);
  if (*holds && !fits) jit->skipped++;
  return error == -ENOMEM ? error : 0;
}

/* Once along the list. Sets *whole: nothing changed before its end, or before as many as are read. */
static int gdb_jit_walk(gdb_jit *jit, bool *whole) {
  gdb_jit_descriptor descriptor;
  *whole = true;
  if (!onstack_process_memory_read(jit->descriptor, &descriptor, sizeof(descriptor)) || descriptor.version != 1) return 0;
  uint64_t at = descriptor.first, earlier = 0;
  int error = 0;
  for (uint32_t i = 0; error == 0 && *whole && at != 0 && at != earlier && i < GDB_JIT_ENTRIES; i++) {
    if ((i & (i - 1)) == 0) earlier = at; /* a ring comes by here again */
    gdb_jit_entry entry = {0};
    *whole = gdb_jit_read_entry(at, &entry);
    if (*whole) error = gdb_jit_take(jit, at, &entry, whole);
    at = entry.next;
  }
  if (*whole && at != 0) jit->skipped++;
  return error;
}

static int gdb_jit_read_list(gdb_jit *jit, uint64_t descriptor, const char *engine) {
  bool whole = false;
  int error = 0;
  const size_t skipped = jit->skipped;
  jit->descriptor = descriptor;
  jit->engine = engine;
  jit->budget = GDB_JIT_READ_MOST;
  for (uint32_t i = 0; error == 0 && !whole && i < GDB_JIT_TRIES; i++) {
    jit->skipped = skipped;
    error = gdb_jit_walk(jit, &whole);
  }
  if (!whole) jit->skipped++;
  return error;
}

/* Of the lists of all modules that have one. */
static int gdb_jit_read_lists(gdb_jit *jit, const onstack_profile_maps *maps) {
  int error = 0;
  uint64_t last = 0;
  for (size_t i = 0; error == 0 && i < maps->count; i++) {
    const onstack_profile_mapping *mapping = &maps->items[i];
    const uint64_t descriptor = onstack_gdb_jit_descriptor(maps, mapping);
    if (descriptor == 0 || descriptor == last) continue;
    last = descriptor; /* a file may have several mappings with code, side by side */
    error = gdb_jit_read_list(jit, descriptor, onstack_profile_mapping_base_name(mapping));
  }
  return error;
}

int onstack_gdb_jit_find(const onstack_profile_maps *maps, onstack_elf_query *queries, const char **engines, size_t count,
                         onstack_profile_arena *names) {
  gdb_jit jit = {.queries = queries, .engines = engines, .count = count, .names = names};
  int error = gdb_jit_read_lists(&jit, maps);
  return error != 0 ? error : (int)jit.skipped;
}

static int gdb_jit_name(onstack_symbol_table *table, const onstack_profile_maps *maps, const onstack_generated_item *items,
                        size_t count) {
  onstack_elf_query *queries = calloc(count, sizeof(*queries));
  const char **engines = calloc(count, sizeof(*engines));
  onstack_profile_arena names = {0};
  for (size_t i = 0; queries && i < count; i++) queries[i].address = items[i].address;
  int result = !queries || !engines ? -ENOMEM : onstack_gdb_jit_find(maps, queries, engines, count, &names);
  if (result > 0) table->skipped_images += (size_t)result;
  for (size_t i = 0; result >= 0 && i < count; i++) {
    const onstack_symbol_line line = {.name = queries[i].name};
    if (line.name) result = onstack_generated_name(table, items[i].number, &line, engines[i]);
  }
  onstack_profile_arena_release(&names);
  free(queries);
  free(engines);
  return result < 0 ? result : 0;
}

static int gdb_jit_give(onstack_symbol_table *table, const onstack_name_context *context) {
  onstack_generated_item *items;
  size_t count;
  int error = onstack_generated_collect(table, context->maps, &items, &count);
  if (error == 0 && count > 0) error = gdb_jit_name(table, context->maps, items, count);
  free(items);
  return error;
}

ONSTACK_INTERNAL_DEFINE const onstack_name_source onstack_name_source_gdb_jit = {gdb_jit_give};
