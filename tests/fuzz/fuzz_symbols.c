/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A module with an ELF file of any content: the index of its functions that signal handlers ask, which does not need
 * the file once it is made, nor mind that it shrinks meanwhile; and the names that a profile asks for. Promises: the
 * index has an order, what it gives covers the address, names have an end inside its block, and a file with another
 * build id is not used.
 * Input: one byte (how much of the file is left after it was opened, in 1/256; 255: all; with an odd one, the module
 * has the file's own build id), then the file.
 */
#include "fuzz.h"

#include "profile/elf/symbol_index.c" /* its static functions */

#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES 64u
#define QUERIES 8u

static int image_file = -1;
static char image_path[64];

static uint64_t address_of(uint32_t number) {
  return number < 48 ? 0x1000 + number * 0x12 : number < 60 ? (uint64_t)number << 24 : UINT64_MAX - 64 + number;
}

/* The last entry that covers an address, or NULL. */
static const onstack_symbol_entry *find_slowly(const onstack_symbol_file *file, uint64_t address) {
  const onstack_symbol_entry *found = NULL;
  for (size_t i = 0; i < file->count; i++)
    if (address >= file->entries[i].start && address - file->entries[i].start < file->entries[i].bytes)
      found = &file->entries[i];
  return found;
}

static void check_order(const onstack_symbol_file *file) {
  for (size_t i = 0; i < file->count; i++) {
    const onstack_symbol_entry *entry = &file->entries[i];
    fuzz_check(entry->bytes > 0 && file->names[entry->name] != 0);
    fuzz_check(strlen(file->names + entry->name) < 65536);
    if (i == 0) continue;
    fuzz_check(entry[-1].start < entry->start || (entry[-1].start == entry->start && entry[-1].bytes > entry->bytes));
  }
}

static void check_results(const onstack_symbol_file *file) {
  for (uint32_t i = 0; i < ADDRESSES; i++) {
    uint64_t start = 0, address = address_of(i);
    const char *name = symbol_file_find(file, address, &start);
    const onstack_symbol_entry *wanted = find_slowly(file, address);
    if (!name) {
      fuzz_check(!wanted || file->count > SYMBOL_INDEX_BACK);
      continue;
    }
    fuzz_check(wanted && name == file->names + wanted->name && start == wanted->start);
  }
}

/* As onstack_symbol_file_get does, but the file is gone when the questions come. */
static void run_index(uint8_t kept, size_t size) {
  onstack_elf_file elf;
  onstack_symbol_file file = {0};
  if (onstack_elf_open_file(&elf, image_path) != 0) return;
  if (kept != 255 && ftruncate(image_file, (off_t)(size * kept / 256)) != 0) abort();
  symbol_file_fill(&file, &elf);
  onstack_elf_close(&elf);
  if (ftruncate(image_file, 0) != 0) abort();
  check_order(&file);
  check_results(&file);
  free(file.entries);
  free((void *)(uintptr_t)file.names);
}

static void run_module(bool own_id) {
  onstack_profile_mapping mapping = {
      .start = 0x1000, .limit = 0x2000, .path = image_path, .stamp = onstack_elf_stamp_of(image_path)};
  onstack_elf_query queries[QUERIES];
  onstack_profile_arena names = {0};
  onstack_elf_file elf;
  memset(queries, 0, sizeof(queries));
  for (uint32_t i = 0; i < QUERIES; i++) queries[i].address = address_of(i * 6);
  if (own_id && onstack_elf_open_file(&elf, image_path) == 0) {
    onstack_elf_read_build_id(&elf, &mapping.build_id);
    onstack_elf_close(&elf);
  } else if (!own_id) {
    mapping.build_id = (onstack_elf_build_id){.length = 3, .bytes = {0xff, 0xfe, 0xfd}};
  }
  int error = onstack_elf_module_symbols(&mapping, queries, QUERIES, &names);
  fuzz_check(error == 0);
  int opened = onstack_elf_module_open_best(&elf, &mapping);
  if (opened == 0) onstack_elf_close(&elf);
  for (uint32_t i = 0; i < QUERIES; i++) fuzz_check(!queries[i].name || opened == 0);
  onstack_profile_arena_release(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  if (image_file < 0) image_file = memfd_create("image", MFD_CLOEXEC);
  snprintf(image_path, sizeof(image_path), "/proc/self/fd/%d", image_file);
  if (ftruncate(image_file, 0) != 0 || pwrite(image_file, data + 1, size - 1, 0) != (ssize_t)(size - 1)) return 0;
  run_module(data[0] & 1);
  run_index(data[0], size - 1);
  return 0;
}
