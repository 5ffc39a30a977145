/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/allocator_hidden.h"

#include "platform/elf_file.h"
#include "profile/elf/elf_symbols.h"

#include <stdlib.h>
#include <string.h>

#define HIDDEN_BLOCK 65536u
#define HIDDEN_NAMES 8u /* of a file; more are not looked at */

typedef struct hidden_search {
  uint32_t count;
  uint32_t starts[HIDDEN_NAMES]; /* of the names in their section */
  char names[HIDDEN_NAMES][ONSTACK_HIDDEN_NAME];
  const char *found;
} hidden_search;

/* "je_malloc", with a prefix or without. A Rust program has none of mimalloc's functions but those that it calls. */
static bool hidden_is_allocator(const char *name, size_t length) {
  static const char *const ends[] = {"rjem_malloc", "je_malloc", "mi_malloc", "mi_malloc_aligned", "tc_malloc"};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(ends); i++) {
    const size_t end = strlen(ends[i]);
    if (length >= end && memcmp(name + length - end, ends[i], end) == 0)
      return length == end || name[length - end - 1] == '_';
  }
  return false;
}

/* The names in `bytes`, which begin at a name; a whole one has its NUL there. Returns what is left behind the last NUL. */
static size_t hidden_look_at(hidden_search *search, const char *bytes, size_t count, uint64_t offset) {
  size_t at = 0;
  for (const char *end; at < count && (end = memchr(bytes + at, '\0', count - at)); at = (size_t)(end - bytes) + 1) {
    const size_t length = (size_t)(end - bytes) - at;
    if (length >= ONSTACK_HIDDEN_NAME || search->count == HIDDEN_NAMES || !hidden_is_allocator(bytes + at, length)) continue;
    memcpy(search->names[search->count], bytes + at, length + 1);
    search->starts[search->count++] = (uint32_t)(offset + at);
  }
  return count - at;
}

static void hidden_look_for_names(hidden_search *search, const onstack_elf_file *file, const onstack_elf_section *names) {
  char *block = malloc(HIDDEN_BLOCK);
  size_t left = 0;
  for (uint64_t at = 0; block && at < names->bytes;) {
    const uint64_t rest = names->bytes - at, room = HIDDEN_BLOCK - left;
    const size_t some = (size_t)(rest < room ? rest : room);
    if (!onstack_elf_read(file, names->offset + at, block + left, some)) break;
    const size_t count = left + some;
    left = hidden_look_at(search, block, count, at - left);
    at += some;
    /* A name that is longer than a block is none of those that are looked for. */
    if (left == HIDDEN_BLOCK) left = 0;
    memmove(block, block + count - left, left);
  }
  free(block);
}

/* What the table names may be another's, which is only called here. */
static bool hidden_visit(void *data, const onstack_elf_symbol *symbol) {
  hidden_search *search = data;
  for (uint32_t i = 0; i < search->count && symbol->section != 0 && !search->found; i++)
    if (search->starts[i] == symbol->name) search->found = search->names[i];
  return !search->found;
}

bool onstack_allocator_hidden(const char *path, char name[ONSTACK_HIDDEN_NAME]) {
  onstack_elf_file file;
  hidden_search search = {.count = 0};
  if (onstack_elf_open_file(&file, path) != 0) return false;
  const onstack_elf_section *table = onstack_elf_symbols_table(&file, ONSTACK_ELF_SECTION_SYMTAB);
  if (table) hidden_look_for_names(&search, &file, &file.sections[table->link]);
  if (search.count > 0) onstack_elf_symbols_each(&file, table, hidden_visit, &search);
  onstack_elf_close(&file);
  if (search.found) strcpy(name, search.found);
  return search.found;
}
