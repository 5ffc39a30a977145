/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/symbol_names.h"

#include "profile/store/arena.h"

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
