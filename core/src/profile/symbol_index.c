/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/symbol_index.h"

#include "profile/elf_module.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SYMBOL_INDEX_FILES 1024u /* a host that loads new files without end must not make us grow without end */
#define SYMBOL_INDEX_BACK 16u    /* symbols before an address that are tried; functions nest one or two deep */
#define SYMBOL_INDEX_PAGE ((uint64_t)65536) /* a multiple of every page size */

static onstack_symbol_file *symbol_files[SYMBOL_INDEX_FILES];
static size_t symbol_file_count;
static onstack_profile_arena symbol_names; /* those that differ from the file's; never released */

typedef struct symbol_reader {
  const onstack_elf_file *file;
  const onstack_elf_section *table;
  const char *names; /* the string table in memory */
  uint64_t names_bytes;
  onstack_symbol_entry *entries;
  size_t count, capacity;
} symbol_reader;

static bool symbol_section_inside(const onstack_elf_file *file, const onstack_elf_section *section) {
  return section->offset <= file->size && section->bytes <= file->size - section->offset && section->bytes > 0;
}

static const onstack_elf_section *symbol_find_table(const onstack_elf_file *file, uint32_t type) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    const onstack_elf_section *table = &file->sections[i];
    if (table->type == type && table->entry_bytes == sizeof(onstack_elf_symbol) && table->link < file->section_count &&
        symbol_section_inside(file, table) && symbol_section_inside(file, &file->sections[table->link]))
      return table;
  }
  return NULL;
}

/* The string table, where it stays: the image itself, or a mapping of the file. */
static const char *symbol_map_names(const onstack_elf_file *file, const onstack_elf_section *names) {
  if (file->descriptor < 0) return (const char *)(uintptr_t)(file->address + names->offset);
  uint64_t skip = names->offset % SYMBOL_INDEX_PAGE;
  char *memory =
      mmap(NULL, names->bytes + skip, PROT_READ, MAP_PRIVATE, file->descriptor, (off_t)(names->offset - skip));
  return memory == MAP_FAILED ? NULL : memory + skip;
}

/* NULL: no end, empty, or no memory. Without the version of an exported symbol (name@@VERSION). */
static const char *symbol_name(const symbol_reader *reader, uint32_t offset) {
  if (offset >= reader->names_bytes) return NULL;
  const char *name = reader->names + offset;
  const char *end = memchr(name, '\0', reader->names_bytes - offset);
  if (end == NULL || end == name) return NULL;
  const char *version = memchr(name + 1, '@', (size_t)(end - name - 1));
  return version == NULL ? name : onstack_profile_arena_text(&symbol_names, name, (size_t)(version - name));
}

static bool symbol_add(void *data, const onstack_elf_symbol *symbol) {
  symbol_reader *reader = data;
  uint32_t rank = onstack_elf_symbol_rank(reader->file, symbol);
  if (rank == 0 || symbol->value > UINT32_MAX) return true;
  const char *name = symbol_name(reader, symbol->name);
  if (name == NULL) return true;
  void *entries = onstack_profile_grow(reader->entries, &reader->capacity, reader->count + 1, sizeof(*reader->entries));
  if (entries == NULL) return false;
  reader->entries = entries;
  /* The rank waits in the low bits of the size until all are sorted; functions of 256 MiB have no name. */
  if (symbol->size >= (uint64_t)1 << 28) return true;
  reader->entries[reader->count++] =
      (onstack_symbol_entry){(uint32_t)symbol->value, (uint32_t)symbol->size << 4 | (rank & 15), name};
  return true;
}

static int symbol_compare(const void *a, const void *b) {
  const onstack_symbol_entry *left = a, *right = b;
  if (left->start != right->start) return left->start < right->start ? -1 : 1;
  uint32_t left_rank = left->bytes & 15, right_rank = right->bytes & 15;
  return left_rank < right_rank ? -1 : left_rank > right_rank;
}

static void symbol_file_fill(onstack_symbol_file *to, const onstack_elf_file *file) {
  symbol_reader reader = {.file = file};
  reader.table = symbol_find_table(file, ONSTACK_ELF_SECTION_SYMTAB);
  if (reader.table == NULL) reader.table = symbol_find_table(file, ONSTACK_ELF_SECTION_DYNSYM);
  if (reader.table == NULL) return;
  const onstack_elf_section *names = &file->sections[reader.table->link];
  reader.names = symbol_map_names(file, names);
  reader.names_bytes = names->bytes;
  if (reader.names == NULL) return;
  onstack_elf_symbols_each(file, reader.table, symbol_add, &reader); /* after an error, what was read before it */
  if (reader.count > 1) qsort(reader.entries, reader.count, sizeof(*reader.entries), symbol_compare);
  for (size_t i = 0; i < reader.count; i++) reader.entries[i].bytes >>= 4;
  to->entries = reader.entries;
  to->count = reader.count;
}

static bool symbol_file_is(const onstack_symbol_file *file, const onstack_profile_mapping *mapping) {
  return file->device == mapping->device && file->inode == mapping->inode &&
         file->build_id.length == mapping->build_id.length &&
         memcmp(file->build_id.bytes, mapping->build_id.bytes, mapping->build_id.length) == 0;
}

const onstack_symbol_file *onstack_symbol_file_get(const onstack_profile_mapping *mapping) {
  onstack_elf_file elf;
  for (size_t i = 0; i < symbol_file_count; i++)
    if (symbol_file_is(symbol_files[i], mapping)) return symbol_files[i];
  if (symbol_file_count == SYMBOL_INDEX_FILES) return NULL;
  onstack_symbol_file *file = calloc(1, sizeof(*file));
  if (file == NULL) return NULL;
  file->device = mapping->device;
  file->inode = mapping->inode;
  file->build_id = mapping->build_id;
  if (onstack_elf_module_open_best(&elf, mapping) == 0) {
    symbol_file_fill(file, &elf);
    onstack_elf_close(&elf);
  }
  symbol_files[symbol_file_count++] = file;
  return file;
}

onstack_symbol_set *onstack_symbol_set_new(const onstack_profile_maps *maps) {
  onstack_symbol_set *set = calloc(1, sizeof(*set) + maps->count * sizeof(set->modules[0]));
  if (set == NULL) return NULL;
  for (size_t i = 0; i < maps->count; i++) {
    const onstack_profile_mapping *mapping = &maps->items[i];
    if (mapping->path[0] == '\0') continue; /* generated code */
    const onstack_symbol_file *file = onstack_symbol_file_get(mapping);
    if (file == NULL || file->count == 0) continue;
    set->modules[set->count++] = (onstack_symbol_module){
        mapping->start, mapping->limit, onstack_profile_mapping_vaddr(mapping, mapping->start) - mapping->start, file};
  }
  return set;
}

/* The entries of one file: the last that begins at or before the address and covers it, of those right before it. */
static ONSTACK_HANDLER const char *symbol_file_find(const onstack_symbol_file *file, uint64_t address, uint64_t *start) {
  size_t low = 0, high = file->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (file->entries[middle].start <= address)
      low = middle + 1;
    else
      high = middle;
  }
  for (size_t i = low; i > 0 && low - i < SYMBOL_INDEX_BACK; i--) {
    const onstack_symbol_entry *entry = &file->entries[i - 1];
    if (address - entry->start >= entry->bytes) continue;
    *start = entry->start;
    return entry->name;
  }
  return NULL;
}

ONSTACK_HANDLER const char *onstack_symbol_set_find(const onstack_symbol_set *set, uint64_t address, uint64_t *entry) {
  for (size_t i = 0; i < set->count; i++) {
    const onstack_symbol_module *module = &set->modules[i];
    if (address < module->start || address >= module->limit) continue;
    uint64_t start = 0;
    const char *name = symbol_file_find(module->file, address + module->difference, &start);
    *entry = name == NULL ? 0 : start - module->difference;
    return name;
  }
  return NULL;
}
