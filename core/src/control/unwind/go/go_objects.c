/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/unwind/go/go_objects.h"

#include "base/regular_file.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int go_copy_object(struct dl_phdr_info *info, size_t size, void *data) {
  onstack_go_object_list *list = data;
  (void)size;
  list->loaded = (onstack_loader_counts){info->dlpi_adds, info->dlpi_subs};
  if (list->count == ONSTACK_GO_OBJECTS) return 1;
  onstack_go_object *object = &list->objects[list->count];
  object->bias = info->dlpi_addr;
  object->segment_count = 0;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || object->segment_count == ONSTACK_GO_SEGMENTS) continue;
    uint64_t low = info->dlpi_addr + segment->p_vaddr;
    object->segments[object->segment_count++] = (onstack_code_range){low, low + segment->p_memsz};
  }
  object->is_program = list->count == 0;
  object->path[0] = 0;
  if (info->dlpi_name && strlen(info->dlpi_name) < sizeof(object->path)) strcpy(object->path, info->dlpi_name);
  list->count++;
  return 0;
}

static bool go_read_at(int file, void *out, size_t size, uint64_t offset) {
  return offset <= INT64_MAX && pread(file, out, size, (off_t)offset) == (ssize_t)size;
}

static void go_note_section(onstack_go_sections *sections, const char *name, const Elf64_Shdr *section, uint64_t bias) {
  if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0) {
    sections->pclntab = bias + section->sh_addr;
    sections->pclntab_size = section->sh_size;
  } else if (strcmp(name, ".go.module") == 0 || strcmp(name, ".data.rel.ro.go.module") == 0) {
    sections->module = bias + section->sh_addr;
    sections->module_size = section->sh_size;
  } else if (strcmp(name, ".text") == 0) {
    sections->text_low = bias + section->sh_addr;
    sections->text_high = bias + section->sh_addr + section->sh_size;
  }
}

static void go_read_sections(int file, const Elf64_Ehdr *header, uint64_t bias, onstack_go_sections *sections) {
  Elf64_Shdr names, section;
  char name[32];
  if (header->e_shentsize != sizeof(section) || header->e_shstrndx >= header->e_shnum) return;
  if (!go_read_at(file, &names, sizeof(names), header->e_shoff + (uint64_t)header->e_shstrndx * sizeof(names))) return;
  for (uint32_t i = 0; i < header->e_shnum; i++) {
    if (!go_read_at(file, &section, sizeof(section), header->e_shoff + (uint64_t)i * sizeof(section))) return;
    if (!(section.sh_flags & SHF_ALLOC)) continue;
    memset(name, 0, sizeof(name));
    if (names.sh_offset > INT64_MAX || pread(file, name, sizeof(name) - 1, (off_t)(names.sh_offset + section.sh_name)) <= 0)
      continue;
    go_note_section(sections, name, &section, bias);
  }
}

bool onstack_go_object_sections(const onstack_go_object *object, onstack_go_sections *sections) {
  Elf64_Ehdr header;
  memset(sections, 0, sizeof(*sections));
  uint64_t size;
  int file = onstack_regular_file_open(object->path[0] ? object->path : "/proc/self/exe", &size);
  if (file < 0) return false;
  if (go_read_at(file, &header, sizeof(header), 0) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
      header.e_ident[EI_CLASS] == ELFCLASS64)
    go_read_sections(file, &header, object->bias, sections);
  close(file);
  return sections->pclntab != 0;
}

bool onstack_go_object_holds(const onstack_go_object *object, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < object->segment_count; i++) {
    const onstack_code_range *segment = &object->segments[i];
    if (address >= segment->low && address <= segment->high && size <= segment->high - address) return true;
  }
  return false;
}

void onstack_go_objects_list(onstack_go_object_list *list) {
  list->count = 0;
  onstack_loader_each(go_copy_object, list);
}
