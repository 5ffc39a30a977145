/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names for signal handlers: what the index keeps, and that the file may become anything afterwards. */
#include "support.h"
#include "test_profile_image.h"

#include "profile/elf/symbol_index.h"
#include "onstack/traceback.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_BYTES 0x3000
#define CODE 0x1000 /* file offset; virtual address 0x2000 */

TestSuite(symbol_index, .init = t_setup);

typedef struct image_file {
  char path[64];
  int descriptor;
} image_file;

static image_file file_make(const image *it) {
  image_file file = {.path = "/tmp/onstack-image-XXXXXX"};
  file.descriptor = mkstemp(file.path);
  cr_assert(file.descriptor >= 0);
  cr_assert_eq(ftruncate(file.descriptor, FILE_BYTES), 0);
  cr_assert_eq(pwrite(file.descriptor, it, sizeof(*it), 0), (ssize_t)sizeof(*it));
  return file;
}

static void file_remove(image_file *file) {
  close(file->descriptor);
  unlink(file->path);
}

static onstack_symbol_set *set_of(const image_file *file, uint64_t inode) {
  onstack_profile_mapping mapping = {.start = 0x500000,
                                     .limit = 0x501000,
                                     .offset = CODE,
                                     .inode = inode,
                                     .path = file->path,
                                     .stamp = onstack_elf_stamp_of(file->path),
                                     .vaddr_difference = 0x1000};
  onstack_profile_maps maps = {.items = &mapping, .count = 1};
  onstack_symbol_set *set = onstack_symbol_set_new(&maps);
  cr_assert_not_null(set);
  return set;
}

/* At a virtual address of the image. */
static void check_name(const onstack_symbol_set *set, uint64_t vaddr, const char *expected, uint64_t start) {
  uint64_t entry;
  const char *name = onstack_symbol_set_find(set, 0x500000 + vaddr - 0x2000, &entry);
  if (!expected) {
    cr_assert_null(name, "%#lx has the name %s", (unsigned long)vaddr, name);
    return;
  }
  cr_assert_not_null(name, "%#lx has no name", (unsigned long)vaddr);
  cr_assert_str_eq(name, expected);
  cr_assert_eq(entry, 0x500000 + start - 0x2000);
}

/* As onstack_traceback_symbol is used: the library is mapped, and its names were read. */
Test(symbol_index, names_outlive_their_file) {
  image it = image_make();
  image_file file = file_make(&it);
  char *image_at = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
  cr_assert_neq(image_at, MAP_FAILED);
  cr_assert_eq(mprotect(image_at + CODE, 0x1000, PROT_READ | PROT_EXEC), 0);
  cr_assert_eq(onstack_traceback_prepare(), 0);
  uint64_t entry, code = (uint64_t)(uintptr_t)image_at + CODE;
  const char *before = onstack_traceback_symbol(code + 40, &entry);
  cr_assert_not_null(before);
  cr_assert_str_eq(before, "function01");
  cr_assert_eq(entry, code + 32);

  char garbage[FILE_BYTES];
  memset(garbage, 'x', sizeof(garbage)); /* names without an end */
  cr_assert_eq(pwrite(file.descriptor, garbage, sizeof(garbage), 0), FILE_BYTES);
  cr_assert_str_eq(before, "function01");
  cr_assert_str_eq(onstack_traceback_symbol(code + 64, &entry), "function02");
  cr_assert_eq(ftruncate(file.descriptor, 0), 0);
  cr_assert_str_eq(before, "function01");
  cr_assert_str_eq(onstack_traceback_symbol(code + 96, &entry), "function03");
  file_remove(&file);
}

Test(symbol_index, file_that_shrinks_while_it_is_read) {
  image it = image_make();
  image_file file = file_make(&it);
  onstack_elf_file elf;
  onstack_symbol_names names;
  cr_assert_eq(onstack_elf_open_file(&elf, file.path), 0);
  cr_assert(onstack_symbol_names_begin(&names, &elf, &elf.sections[3]));
  cr_assert_eq(ftruncate(file.descriptor, (off_t)elf.sections[3].offset + 12), 0);
  cr_assert_eq(onstack_symbol_names_copy(&names, 12), 0);
  onstack_symbol_names_end(&names);
  free(names.text);
  onstack_elf_close(&elf);
  file_remove(&file);
}

static void set_symbol(image *it, uint32_t number, uint32_t name, uint8_t bind, uint64_t value, uint64_t size) {
  it->symbols[number] =
      (onstack_elf_symbol){.name = name, .info = (uint8_t)(bind << 4 | 2), .section = 1, .value = value, .size = size};
}

Test(symbol_index, the_better_name_of_one_address_and_the_inner_function) {
  image it = image_make();
  memset(it.symbols, 0, sizeof(it.symbols));
  set_symbol(&it, 1, 12, 0, 0x2000, 32); /* local: the global one covers all of it */
  set_symbol(&it, 2, 24, 1, 0x2000, 32);
  set_symbol(&it, 3, 36, 0, 0x2040, 64); /* local, and longer than the global one */
  set_symbol(&it, 4, 48, 1, 0x2040, 16);
  set_symbol(&it, 5, 60, 1, 0x2100, 64); /* with another inside */
  set_symbol(&it, 6, 72, 1, 0x2110, 16);
  image_file file = file_make(&it);
  onstack_symbol_set *set = set_of(&file, 1);
  cr_assert_eq(set->modules[0].file->count, 5);
  check_name(set, 0x2000, "function02", 0x2000);
  check_name(set, 0x2020, NULL, 0);
  check_name(set, 0x204f, "function04", 0x2040);
  check_name(set, 0x2050, "function03", 0x2040);
  check_name(set, 0x210f, "function05", 0x2100);
  check_name(set, 0x2110, "function06", 0x2110);
  check_name(set, 0x2120, "function05", 0x2100);
  free(set);
  file_remove(&file);
}

Test(symbol_index, shared_tails_versions_and_names_without_an_end) {
  static const char table[] = "\0barfoo@@V1\0foo@V\0@\0";
  image it = image_make();
  memset(it.symbols, 0, sizeof(it.symbols));
  memset(it.names, 'x', sizeof(it.names));
  memcpy(it.names, table, sizeof(table) - 1);
  static const uint32_t offsets[] = {4, 1, 12, 18, 20, sizeof(it.names), 7};
  for (uint32_t i = 0; i < 7; i++) set_symbol(&it, i + 1, offsets[i], 1, 0x2000 + i * 32, 32);
  image_file file = file_make(&it);
  onstack_symbol_set *set = set_of(&file, 2);
  check_name(set, 0x2000, "foo", 0x2000);
  check_name(set, 0x2020, "barfoo", 0x2020);
  check_name(set, 0x2040, "foo", 0x2040);
  check_name(set, 0x2060, "@", 0x2060);
  check_name(set, 0x2080, NULL, 0);     /* no end */
  check_name(set, 0x20a0, NULL, 0);     /* outside */
  check_name(set, 0x20c0, "@", 0x20c0); /* the tail of what was cut off */
  free(set);
  file_remove(&file);
}
