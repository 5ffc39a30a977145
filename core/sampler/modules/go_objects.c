/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/go_objects.h"

#include "platform/elf_file.h"
#include "platform/proc.h"
#include "platform/process_memory.h"
#include "sampler/modules/other_objects.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define GO_ROOM 16u  /* objects beyond those of the last pass */
#define GO_PASSES 4u /* over the loader's list, while it grows */

/* Whether the object was looked at before; notes that it is there yet. */
static bool go_is_looked_at(onstack_go_object_list *list, uint64_t load) {
  if (load == 0 || load > list->looked) return false;
  for (uint32_t i = 0; i < ONSTACK_GO_RUNTIMES; i++) list->live_is_there[i] |= list->live[i] == load;
  return true;
}

/* Copies only: a slow callback would hold the loader's lock and block dlopen elsewhere. */
static int go_copy_object(const struct dl_phdr_info *info, uint64_t load, void *data) {
  onstack_go_object_list *list = data;
  onstack_object_copy copy;
  const bool is_program = list->length++ == 0;
  list->loaded = onstack_loader_counts_in(info);
  if (load > list->last) list->last = load;
  if (go_is_looked_at(list, load)) return 0;
  if (list->count == list->room) {
    list->left_out++;
    return 0;
  }
  onstack_go_object *object = &list->objects[list->count];
  onstack_object_copy_headers(info, &copy);
  object->bias = info->dlpi_addr;
  object->load = load;
  object->segment_count = 0;
  for (uint32_t i = 0; i < copy.info.dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &copy.headers[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R) || object->segment_count == ONSTACK_GO_SEGMENTS) continue;
    uint64_t low = info->dlpi_addr + segment->p_vaddr;
    object->segments[object->segment_count++] = (onstack_code_range){low, low + segment->p_memsz};
  }
  object->is_program = is_program;
  object->path[0] = 0;
  if (info->dlpi_name && strlen(info->dlpi_name) < sizeof(object->path)) strcpy(object->path, info->dlpi_name);
  list->count++;
  return 0;
}

static void go_note_section(onstack_go_sections *sections, const char *name, const onstack_elf_section *section,
                            uint64_t bias) {
  if (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0) {
    sections->pclntab = bias + section->vaddr;
    sections->pclntab_size = section->bytes;
  } else if (strcmp(name, ".go.module") == 0 || strcmp(name, ".data.rel.ro.go.module") == 0) {
    sections->module = bias + section->vaddr;
    sections->module_size = section->bytes;
  }
}

int onstack_go_object_sections(const onstack_go_object *object, onstack_go_sections *sections) {
  onstack_elf_file file;
  char name[32];
  memset(sections, 0, sizeof(*sections));
  int error = onstack_elf_open_file(&file, object->path[0] ? object->path : onstack_own_executable());
  /* No /proc: as it was started. Whatever lies there now, tables are taken only where they are in memory. */
  const char *started = (const char *)(uintptr_t)getauxval(AT_EXECFN);
  if (error != 0 && !object->path[0] && started) error = onstack_elf_open_file(&file, started);
  if (error != 0) return error;
  for (uint32_t i = 0; i < file.section_count; i++) {
    if (!(file.sections[i].flags & ONSTACK_ELF_SECTION_ALLOCATED)) continue;
    onstack_elf_section_name(&file, &file.sections[i], name, sizeof(name));
    go_note_section(sections, name, &file.sections[i], object->bias);
  }
  onstack_elf_close(&file);
  return sections->pclntab != 0 ? 0 : -ENOENT;
}

bool onstack_go_object_holds(const onstack_go_object *object, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < object->segment_count; i++) {
    const onstack_code_range *segment = &object->segments[i];
    if (address >= segment->low && address <= segment->high && size <= segment->high - address) return true;
  }
  return false;
}

static void go_add_other(void *data, struct dl_phdr_info *info) {
  onstack_go_object_list *list = data;
  for (uint32_t i = 0; i < list->count; i++)
    if (list->objects[i].bias == info->dlpi_addr) return;
  info->dlpi_adds = list->loaded.adds;
  info->dlpi_subs = list->loaded.subs;
  go_copy_object(info, 0, list);
}

/* More loaded, in all namespaces, than listed, of our own: see sampler/modules/modules.c. */
static bool go_has_others(const onstack_go_object_list *list) {
  return (int64_t)(list->loaded.adds - list->loaded.subs) > (int64_t)list->length;
}

static void go_list_own(onstack_go_object_list *list) {
  list->count = list->length = list->left_out = 0;
  list->last = 0;
  memset(list->live_is_there, 0, sizeof(list->live_is_there));
  onstack_loader_each_load(go_copy_object, list);
}

static void go_list_all(onstack_go_object_list *list) {
  go_list_own(list);
  if (!go_has_others(list)) return;
  if (list->looked != 0) { /* what a whole list of our own lacks belongs to the others */
    list->looked = 0;
    go_list_own(list);
  }
  onstack_other_objects_each(onstack_process_memory_copy, go_add_other, list);
}

void onstack_go_objects_list(onstack_go_object_list *list) {
  for (uint32_t pass = 0; pass < GO_PASSES; pass++) {
    go_list_all(list);
    if (list->left_out == 0) return;
    const uint32_t room = list->count + list->left_out + GO_ROOM;
    onstack_go_object *objects = realloc(list->objects, room * sizeof(*objects));
    if (!objects) return;
    list->objects = objects;
    list->room = room;
  }
}
