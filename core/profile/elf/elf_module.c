/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/elf/elf_module.h"

#include "platform/proc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
