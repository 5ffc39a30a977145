/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/symbol_index.h"

#include "profile/elf/elf_symbols.h"
#include "profile/store/store.h"

#include <stdlib.h>
#include <string.h>

#define SYMBOL_NAMES_WINDOW ((size_t)64 * 1024) /* a longer name is none; mangled ones reach some kilobytes */
#define SYMBOL_NAMES_MOST ((size_t)128 << 20)   /* bytes; 106,477 functions of a large compiler have 18 MiB */
/* A table of zeros, or without an end, that only claims to be large costs no more reading than this. */
#define SYMBOL_NAMES_READ ((uint64_t)1 << 30)

bool onstack_symbol_names_begin(onstack_symbol_names *names, const onstack_elf_file *file,
                                const onstack_elf_section *table) {
  *names = (onstack_symbol_names){.file = file, .table = table, .used = 1, .budget = SYMBOL_NAMES_READ};
  names->window = malloc(SYMBOL_NAMES_WINDOW);
  names->text = onstack_profile_grow(NULL, &names->capacity, 1, 1);
  if (names->window && names->text) {
    names->text[0] = '\0';
    return true;
  }
  free(names->window);
  free(names->text);
  return false;
}

/* The window begins at the offset, which lies in the table. */
static bool symbol_names_read(onstack_symbol_names *names, uint64_t offset) {
  uint64_t there = names->table->bytes - offset;
  names->window_at = offset;
  names->window_bytes = 0;
  size_t bytes = there < SYMBOL_NAMES_WINDOW ? (size_t)there : SYMBOL_NAMES_WINDOW;
  if (bytes > names->budget || !onstack_elf_read(names->file, names->table->offset + offset, names->window, bytes))
    return false;
  names->budget -= bytes;
  names->window_bytes = bytes;
  return true;
}

/* The length of the name that begins in the window, or 0. */
static size_t symbol_names_length(const onstack_symbol_names *names, uint64_t offset) {
  if (offset < names->window_at || offset - names->window_at >= names->window_bytes) return 0;
  const char *name = names->window + (offset - names->window_at);
  const char *end = memchr(name, '\0', names->window_bytes - (size_t)(offset - names->window_at));
  if (!end || end == name) return 0;
  const char *version = memchr(name + 1, '@', (size_t)(end - name - 1));
  return (size_t)((!version ? end : version) - name);
}

static uint32_t symbol_names_keep(onstack_symbol_names *names, const char *name, size_t length) {
  if (length >= SYMBOL_NAMES_MOST - names->used) return 0;
  char *text = onstack_profile_grow(names->text, &names->capacity, names->used + length + 1, 1);
  if (!text) return 0;
  size_t place = names->used;
  memcpy(text + place, name, length);
  text[place + length] = '\0';
  names->text = text;
  names->used += length + 1;
  return (uint32_t)place;
}

uint32_t onstack_symbol_names_copy(onstack_symbol_names *names, uint32_t offset) {
  if (offset >= names->table->bytes) return 0;
  if (offset >= names->last && offset - names->last < names->last_length)
    return names->last_copy + (uint32_t)(offset - names->last);
  size_t length = symbol_names_length(names, offset);
  if (length == 0 && symbol_names_read(names, offset)) length = symbol_names_length(names, offset);
  if (length == 0) return 0;
  uint32_t copy = symbol_names_keep(names, names->window + (offset - names->window_at), length);
  if (copy == 0) return 0;
  names->last = offset;
  names->last_length = length;
  names->last_copy = copy;
  return copy;
}

void onstack_symbol_names_end(onstack_symbol_names *names) {
  free(names->window);
  names->window = NULL;
}

#define SYMBOL_INDEX_FILES 1024u            /* a host that loads new files without end must not make us grow without end */
#define SYMBOL_INDEX_BACK 16u               /* symbols before an address that are tried; functions nest one or two deep */
#define SYMBOL_INDEX_MOST ((size_t)4 << 20) /* functions of one file; bounds what a hostile table makes us keep */

static onstack_symbol_file *symbol_files[SYMBOL_INDEX_FILES];
static size_t symbol_file_count;

typedef struct symbol_reader {
  const onstack_elf_file *file;
  onstack_symbol_entry *entries; /* until their names are copied, `name` is the offset in the file's table */
  size_t count, capacity;
} symbol_reader;

static bool symbol_add(void *data, const onstack_elf_symbol *symbol) {
  symbol_reader *reader = data;
  uint32_t rank = onstack_elf_symbol_rank(reader->file, symbol);
  /* The rank waits in the low bits of the size until all are sorted; functions of 256 MiB have no name. */
  if (rank == 0 || symbol->value > UINT32_MAX || symbol->size >= (uint64_t)1 << 28) return true;
  if (reader->count == SYMBOL_INDEX_MOST) return false;
  void *entries = onstack_profile_grow(reader->entries, &reader->capacity, reader->count + 1, sizeof(*reader->entries));
  if (!entries) return false;
  reader->entries = entries;
  reader->entries[reader->count++] =
      (onstack_symbol_entry){(uint32_t)symbol->value, (uint32_t)symbol->size << 4 | (rank & 15), symbol->name};
  return true;
}

static int symbol_order(uint32_t left, uint32_t right) { return left < right ? -1 : left > right; }

static int symbol_compare_rank(const void *a, const void *b) {
  const onstack_symbol_entry *left = a, *right = b;
  if (left->start != right->start) return symbol_order(left->start, right->start);
  int order = symbol_order(left->bytes & 15, right->bytes & 15);
  return order != 0 ? order : symbol_order(left->bytes, right->bytes);
}

static int symbol_compare_name(const void *a, const void *b) {
  const onstack_symbol_entry *left = a, *right = b;
  return symbol_order(left->name, right->name);
}

/* After symbol_drop_hidden: of those that begin at one address the shorter one has the better name. */
static int symbol_compare_place(const void *a, const void *b) {
  const onstack_symbol_entry *left = a, *right = b;
  if (left->start != right->start) return symbol_order(left->start, right->start);
  return symbol_order(right->bytes, left->bytes);
}

/* Those that no address leads to, as a better one covers all of them: aliases, for the most part. Their names are not
   copied then. */
static void symbol_drop_hidden(symbol_reader *reader) {
  onstack_symbol_entry *kept = reader->entries;
  size_t count = 0;
  for (size_t i = 0; i < reader->count; i++) {
    onstack_symbol_entry entry = reader->entries[i];
    entry.bytes >>= 4;
    while (count > 0 && kept[count - 1].start == entry.start && kept[count - 1].bytes <= entry.bytes) count--;
    kept[count++] = entry;
  }
  reader->count = count;
}

/* Entries by rising name offset. Those without a name go. */
static void symbol_take_names(symbol_reader *reader, onstack_symbol_names *names) {
  size_t count = 0;
  for (size_t i = 0; i < reader->count; i++) {
    onstack_symbol_entry entry = reader->entries[i];
    entry.name = onstack_symbol_names_copy(names, entry.name);
    if (entry.name != 0) reader->entries[count++] = entry;
  }
  reader->count = count;
}

/* What grew by doubling is cut to what is used; as it was when that fails. */
static void *symbol_fit(void *items, size_t bytes) {
  void *fitted = realloc(items, bytes);
  if (!fitted) return items;
  return fitted;
}

static void symbol_sort(symbol_reader *reader, int (*compare)(const void *, const void *)) {
  if (reader->count > 1) qsort(reader->entries, reader->count, sizeof(*reader->entries), compare);
}

static void symbol_file_fill(onstack_symbol_file *to, const onstack_elf_file *file) {
  symbol_reader reader = {.file = file};
  onstack_symbol_names names;
  const onstack_elf_section *table = onstack_elf_symbols_table(file, ONSTACK_ELF_SECTION_SYMTAB);
  if (!table) table = onstack_elf_symbols_table(file, ONSTACK_ELF_SECTION_DYNSYM);
  if (!table || !onstack_symbol_names_begin(&names, file, &file->sections[table->link])) return;
  onstack_elf_symbols_each(file, table, symbol_add, &reader); /* after an error, what was read before it */
  symbol_sort(&reader, symbol_compare_rank);
  symbol_drop_hidden(&reader);
  symbol_sort(&reader, symbol_compare_name);
  symbol_take_names(&reader, &names);
  symbol_sort(&reader, symbol_compare_place);
  onstack_symbol_names_end(&names);
  if (reader.count == 0) {
    free(reader.entries);
    free(names.text);
    return;
  }
  to->entries = symbol_fit(reader.entries, reader.count * sizeof(*reader.entries));
  to->count = reader.count;
  to->names = symbol_fit(names.text, names.used);
}

static bool symbol_file_is(const onstack_symbol_file *file, const onstack_profile_mapping *mapping) {
  const onstack_elf_stamp *a = &file->stamp, *b = &mapping->stamp;
  return file->device == mapping->device && file->inode == mapping->inode && a->bytes == b->bytes &&
         a->modified_ns == b->modified_ns && file->build_id.length == mapping->build_id.length &&
         memcmp(file->build_id.bytes, mapping->build_id.bytes, mapping->build_id.length) == 0;
}

const onstack_symbol_file *onstack_symbol_file_get(const onstack_profile_mapping *mapping) {
  onstack_elf_file elf;
  for (size_t i = 0; i < symbol_file_count; i++)
    if (symbol_file_is(symbol_files[i], mapping)) return symbol_files[i];
  if (symbol_file_count == SYMBOL_INDEX_FILES) return NULL;
  onstack_symbol_file *file = calloc(1, sizeof(*file));
  if (!file) return NULL;
  file->device = mapping->device;
  file->inode = mapping->inode;
  file->build_id = mapping->build_id;
  file->stamp = mapping->stamp;
  if (onstack_elf_module_open_best(&elf, mapping) == 0) {
    symbol_file_fill(file, &elf);
    onstack_elf_close(&elf);
  }
  symbol_files[symbol_file_count++] = file;
  return file;
}

onstack_symbol_set *onstack_symbol_set_new(const onstack_profile_maps *maps) {
  onstack_symbol_set *set = calloc(1, sizeof(*set) + maps->count * sizeof(set->modules[0]));
  if (!set) return NULL;
  for (size_t i = 0; i < maps->count; i++) {
    const onstack_profile_mapping *mapping = &maps->items[i];
    if (mapping->path[0] == '\0') continue; /* generated code */
    const onstack_symbol_file *file = onstack_symbol_file_get(mapping);
    if (!file || file->count == 0) continue;
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
    return file->names + entry->name;
  }
  return NULL;
}

ONSTACK_HANDLER const char *onstack_symbol_set_find(const onstack_symbol_set *set, uint64_t address, uint64_t *entry) {
  for (size_t i = 0; i < set->count; i++) {
    const onstack_symbol_module *module = &set->modules[i];
    if (address < module->start || address >= module->limit) continue;
    uint64_t start = 0;
    const char *name = symbol_file_find(module->file, address + module->difference, &start);
    *entry = !name ? 0 : start - module->difference;
    return name;
  }
  return NULL;
}
