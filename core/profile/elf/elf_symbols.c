/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/elf_symbols.h"

#include "platform/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONSTACK_ELF_SYMBOLS_AT_ONCE 1024u
/* Mangled names of Rust and C++ reach some kilobytes. */
#define ONSTACK_ELF_NAME_LIMIT ((size_t)64 * 1024)
/* Symbols that cover one address: a handful of aliases in true files. A table in which each symbol covers everything
   would cost symbols times addresses; it is given up at this many for each symbol and address on average. */
#define ONSTACK_ELF_COVER_LIMIT 64u

typedef struct elf_symbol_scan {
  const onstack_elf_file *file;
  const onstack_elf_section *table;
  const onstack_elf_section *names;
  onstack_elf_query *queries;
  size_t count;
  uint64_t budget; /* covers left, see ONSTACK_ELF_COVER_LIMIT */
} elf_symbol_scan;

/* Among symbols at one address: functions before bare labels, then global before weak before local. 0: no function. */
uint32_t onstack_elf_symbol_rank(const onstack_elf_file *file, const onstack_elf_symbol *symbol) {
  if (symbol->size == 0 || symbol->name == 0 || symbol->section == ONSTACK_ELF_INDEX_UNDEFINED) return 0;
  uint32_t rank;
  switch (symbol->info >> 4) {
  case ONSTACK_ELF_BIND_WEAK:
    rank = 2;
    break;
  case ONSTACK_ELF_BIND_LOCAL:
    rank = 1;
    break;
  default:
    rank = 3; /* global, and GNU's unique */
  }
  switch (symbol->info & 15) {
  case ONSTACK_ELF_SYMBOL_FUNCTION:
  case ONSTACK_ELF_SYMBOL_IFUNC:
    return rank + 3;
  case ONSTACK_ELF_SYMBOL_NOTYPE:
    break; /* assembly */
  default:
    return 0;
  }
  if (symbol->section >= ONSTACK_ELF_INDEX_RESERVED || symbol->section >= file->section_count) return 0;
  return (file->sections[symbol->section].flags & ONSTACK_ELF_SECTION_EXECUTABLE) != 0 ? rank : 0;
}

/* The first query at or above an address. */
static size_t elf_query_lower_bound(const onstack_elf_query *queries, size_t count, uint64_t address) {
  size_t low = 0;
  while (count > 0) {
    size_t half = count / 2;
    if (queries[low + half].address < address) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

/* False when the table is given up. */
static bool elf_symbol_offer(void *data, const onstack_elf_symbol *symbol) {
  elf_symbol_scan *scan = data;
  uint32_t rank = onstack_elf_symbol_rank(scan->file, symbol);
  if (rank == 0) return true;
  const uint64_t value = symbol->value;
  for (size_t i = elf_query_lower_bound(scan->queries, scan->count, value); i < scan->count; i++) {
    onstack_elf_query *query = &scan->queries[i];
    if (query->address - value >= symbol->size) return true; /* cannot wrap: at or above value */
    if (scan->budget-- == 0) return false;
    /* Of nested symbols the inner one, which begins later, is meant. */
    if (query->name) continue;
    if (query->rank == 0 || value > query->value || (value == query->value && rank > query->rank)) {
      query->value = value;
      query->name_offset = symbol->name;
      query->rank = rank;
    }
  }
  return true;
}

int onstack_elf_symbols_each(const onstack_elf_file *file, const onstack_elf_section *table,
                             bool (*visit)(void *data, const onstack_elf_symbol *symbol), void *data) {
  uint64_t left = table->bytes / sizeof(onstack_elf_symbol);
  uint64_t offset = table->offset;
  onstack_elf_symbol *symbols = malloc(ONSTACK_ELF_SYMBOLS_AT_ONCE * sizeof(*symbols));
  if (!symbols) return -ENOMEM;
  bool go_on = true;
  while (go_on && left > 0) {
    size_t some = left < ONSTACK_ELF_SYMBOLS_AT_ONCE ? (size_t)left : ONSTACK_ELF_SYMBOLS_AT_ONCE;
    go_on = onstack_elf_read(file, offset, symbols, some * sizeof(*symbols));
    for (size_t i = 0; go_on && i < some; i++) go_on = visit(data, &symbols[i]);
    left -= some;
    offset += some * sizeof(*symbols);
  }
  free(symbols);
  return 0;
}

/* Reads a NUL-terminated name. Returns its length; 0: it has no end inside the table, or is empty. */
static size_t elf_symbol_name(const elf_symbol_scan *scan, uint32_t name_offset, char *name) {
  const onstack_elf_section *names = scan->names;
  size_t length = 0;
  for (size_t step = 256; length < ONSTACK_ELF_NAME_LIMIT; length += step) {
    if (name_offset + (uint64_t)length >= names->bytes) return 0;
    uint64_t there = names->bytes - name_offset - length;
    if (step > there) step = (size_t)there;
    if (step > ONSTACK_ELF_NAME_LIMIT - length) step = ONSTACK_ELF_NAME_LIMIT - length;
    if (!onstack_elf_read(scan->file, names->offset + name_offset + length, name + length, step)) return 0;
    char *end = memchr(name + length, '\0', step);
    if (!end) continue;
    /* Static tables carry the version of an exported symbol, name@VERSION or name@@VERSION; people do not. */
    char *version = memchr(name + 1, '@', end > name ? (size_t)(end - name - 1) : 0);
    return (size_t)((version ? version : end) - name);
  }
  return 0;
}

static int elf_symbols_take_names(elf_symbol_scan *scan, onstack_profile_arena *arena) {
  char *buffer = malloc(ONSTACK_ELF_NAME_LIMIT);
  if (!buffer) return -ENOMEM;
  int error = 0;
  const onstack_elf_query *previous = NULL;
  for (size_t i = 0; error == 0 && i < scan->count; i++) {
    onstack_elf_query *query = &scan->queries[i];
    if (query->rank == 0 || query->name) continue;
    if (previous && previous->name_offset == query->name_offset) {
      query->name = previous->name; /* neighbours are often in one function */
    } else {
      size_t length = elf_symbol_name(scan, query->name_offset, buffer);
      if (length > 0) query->name = onstack_profile_arena_text(arena, buffer, length);
      if (length > 0 && !query->name) error = -ENOMEM;
    }
    if (query->name) previous = query;
  }
  free(buffer);
  return error;
}

static bool elf_section_inside(const onstack_elf_file *file, const onstack_elf_section *section) {
  return section->bytes > 0 && section->offset <= file->size && section->bytes <= file->size - section->offset;
}

static bool elf_symbols_are_sound(const onstack_elf_file *file, const onstack_elf_section *table) {
  if (table->entry_bytes != sizeof(onstack_elf_symbol) || table->link >= file->section_count) return false;
  const onstack_elf_section *names = &file->sections[table->link];
  return names->type == ONSTACK_ELF_SECTION_STRTAB && elf_section_inside(file, table) && elf_section_inside(file, names);
}

const onstack_elf_section *onstack_elf_symbols_table(const onstack_elf_file *file, uint32_t table_type) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    const onstack_elf_section *table = &file->sections[i];
    if (table->type == table_type && elf_symbols_are_sound(file, table)) return table;
  }
  return NULL;
}

int onstack_elf_symbols_find(const onstack_elf_file *file, uint32_t table_type, onstack_elf_query *queries, size_t count,
                             onstack_profile_arena *names) {
  elf_symbol_scan scan = {.file = file, .queries = queries, .count = count};
  scan.table = onstack_elf_symbols_table(file, table_type);
  if (count == 0 || !scan.table) return 0;
  scan.names = &file->sections[scan.table->link];
  scan.budget = (scan.table->bytes / sizeof(onstack_elf_symbol) + count) * ONSTACK_ELF_COVER_LIMIT;
  for (size_t i = 0; i < count; i++) queries[i].rank = 0;
  int error = onstack_elf_symbols_each(file, scan.table, elf_symbol_offer, &scan);
  return error != 0 ? error : elf_symbols_take_names(&scan, names);
}

/* Where the symbols of a mapped module are. */

#define ONSTACK_ELF_DEBUG_ROOT "/usr/lib/debug/.build-id/"

static bool elf_module_fits(const onstack_elf_file *file, const onstack_elf_build_id *wanted) {
  onstack_elf_build_id id;
  onstack_elf_read_build_id(file, &id);
  return id.length == wanted->length && memcmp(id.bytes, wanted->bytes, id.length) == 0;
}

static int elf_module_open_path(onstack_elf_file *file, const char *path, const onstack_elf_build_id *wanted) {
  int error = onstack_elf_open_file(file, path);
  if (error != 0 || wanted->length == 0 || elf_module_fits(file, wanted)) return error;
  onstack_elf_close(file);
  return -ENOEXEC;
}

/* The module's own file. The program's link in /proc leads to it even when its name is gone or hidden by a mount. */
static int elf_module_open(onstack_elf_file *file, const onstack_profile_mapping *mapping) {
  const onstack_elf_build_id *id = &mapping->build_id;
  if (mapping->main && elf_module_open_path(file, onstack_own_executable(), id) == 0) return 0;
  if (onstack_profile_mapping_is_file(mapping)) {
    if (mapping->deleted && id->length == 0) return -ENOENT; /* what has the name now cannot be told from it */
    int error = elf_module_open_path(file, mapping->path, id);
    if (error != 0 || id->length != 0 || onstack_elf_has_stamp(file, &mapping->stamp)) return error;
    onstack_elf_close(file); /* another file, or written over since it was seen mapped */
    return -ENOEXEC;
  }
  if (mapping->image == 0) return -ENOENT;
  return onstack_elf_open_memory(file, mapping->image, mapping->image_bytes);
}

static int elf_module_open_debug(onstack_elf_file *file, const onstack_elf_build_id *id) {
  char path[sizeof(ONSTACK_ELF_DEBUG_ROOT) + 2 * ONSTACK_ELF_BUILD_ID_MAX + sizeof("/.debug")];
  if (id->length < 2) return -ENOENT;
  int used = snprintf(path, sizeof(path), ONSTACK_ELF_DEBUG_ROOT "%02x/", id->bytes[0]);
  for (uint32_t i = 1; i < id->length; i++) {
    used += snprintf(path + used, sizeof(path) - (size_t)used, "%02x", id->bytes[i]);
  }
  snprintf(path + used, sizeof(path) - (size_t)used, ".debug");
  return elf_module_open_path(file, path, id);
}

static bool elf_module_all_named(const onstack_elf_query *queries, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!queries[i].name) return false;
  }
  return true;
}

int onstack_elf_module_symbols(const onstack_profile_mapping *mapping, onstack_elf_query *queries, size_t count,
                               onstack_profile_arena *names) {
  onstack_elf_file file, debug;
  int opened = elf_module_open(&file, mapping), error = 0;
  if (opened == 0) error = onstack_elf_symbols_find(&file, ONSTACK_ELF_SECTION_SYMTAB, queries, count, names);
  if (error == 0 && !elf_module_all_named(queries, count) && elf_module_open_debug(&debug, &mapping->build_id) == 0) {
    error = onstack_elf_symbols_find(&debug, ONSTACK_ELF_SECTION_SYMTAB, queries, count, names);
    onstack_elf_close(&debug);
  }
  if (opened == 0 && error == 0) {
    error = onstack_elf_symbols_find(&file, ONSTACK_ELF_SECTION_DYNSYM, queries, count, names);
  }
  if (opened == 0) onstack_elf_close(&file);
  return error;
}

static bool elf_module_has_table(const onstack_elf_file *file) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    if (file->sections[i].type == ONSTACK_ELF_SECTION_SYMTAB) return true;
  }
  return false;
}

int onstack_elf_module_open_best(onstack_elf_file *file, const onstack_profile_mapping *mapping) {
  onstack_elf_file debug;
  int opened = elf_module_open(file, mapping);
  if (opened == 0 && elf_module_has_table(file)) return 0;
  if (elf_module_open_debug(&debug, &mapping->build_id) != 0) return opened;
  if (opened == 0) onstack_elf_close(file);
  *file = debug;
  return 0;
}
