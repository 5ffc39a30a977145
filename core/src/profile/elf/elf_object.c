/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/elf_object.h"

#include "profile/elf/elf_symbols.h"

#include <stdlib.h>
#include <string.h>

#define ELF_OBJECT_WINDOW ((size_t)64 * 1024)
#define ELF_OBJECT_PLACES 8u /* of the name among the names; linkers keep one, and names that end in it */

typedef struct elf_object_scan {
  uint64_t places[ELF_OBJECT_PLACES];
  uint32_t count;
  bool found;
  uint64_t vaddr;
} elf_object_scan;

/* Static tables may carry the version of an exported symbol behind its name. */
static void elf_object_look(elf_object_scan *scan, const char *window, size_t bytes, uint64_t at, const char *name) {
  const size_t length = strlen(name);
  for (size_t i = 0; i + length < bytes && scan->count < ELF_OBJECT_PLACES; i++) {
    const char *next = memchr(window + i, name[0], bytes - length - i);
    if (!next) return;
    i = (size_t)(next - window);
    if (memcmp(next, name, length) == 0 && (next[length] == '\0' || next[length] == '@'))
      scan->places[scan->count++] = at + i;
  }
}

static void elf_object_look_all(elf_object_scan *scan, const onstack_elf_file *file, const onstack_elf_section *names,
                                const char *name) {
  char *window = malloc(ELF_OBJECT_WINDOW);
  const size_t overlap = strlen(name);
  for (uint64_t at = 0; window && names->bytes - at > overlap; at += ELF_OBJECT_WINDOW - overlap) {
    const uint64_t there = names->bytes - at;
    const size_t bytes = there < ELF_OBJECT_WINDOW ? (size_t)there : ELF_OBJECT_WINDOW;
    if (!onstack_elf_read(file, names->offset + at, window, bytes)) break;
    elf_object_look(scan, window, bytes, at, name);
    if (bytes < ELF_OBJECT_WINDOW) break;
  }
  free(window);
}

static bool elf_object_visit(void *data, const onstack_elf_symbol *symbol) {
  elf_object_scan *scan = data;
  const uint8_t type = symbol->info & 15;
  if (symbol->section == ONSTACK_ELF_INDEX_UNDEFINED || symbol->section >= ONSTACK_ELF_INDEX_RESERVED ||
      (type != ONSTACK_ELF_SYMBOL_OBJECT && type != ONSTACK_ELF_SYMBOL_NOTYPE))
    return true;
  for (uint32_t i = 0; i < scan->count; i++) {
    if (scan->places[i] != symbol->name) continue;
    scan->found = true;
    scan->vaddr = symbol->value;
    return false;
  }
  return true;
}

bool onstack_elf_object_find(const onstack_elf_file *file, uint32_t table_type, const char *name, uint64_t *vaddr) {
  elf_object_scan scan = {.count = 0};
  const onstack_elf_section *table = onstack_elf_symbols_table(file, table_type);
  if (!table) return false;
  elf_object_look_all(&scan, file, &file->sections[table->link], name);
  if (scan.count == 0 || onstack_elf_symbols_each(file, table, elf_object_visit, &scan) != 0 || !scan.found) return false;
  *vaddr = scan.vaddr;
  return true;
}
