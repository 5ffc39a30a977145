/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/modules.h"

#include "platform/elf_file.h"
#include "platform/proc.h"

#include <string.h>

#define OTHER_SEGMENTS 32u /* linkers write about ten */

typedef struct other_search {
  size_t (*read)(uint64_t address, void *out, size_t size);
  void (*visit)(void *data, struct dl_phdr_info *object);
  void *data;
  uint64_t low; /* where a file's first page was mapped last, and nothing of it has been visited yet; 0: none */
  char path[512];
} other_search;

/* The segment at the file's beginning, which the program header is in. */
static const ElfW(Phdr) * other_first(const ElfW(Phdr) * segments, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0) return &segments[i];
  return NULL;
}

/* Is code mapped where the program header wants it? A file that somebody only reads has none there. */
static bool other_is_here(const ElfW(Phdr) * segments, uint32_t count, uint64_t bias, const onstack_mapping *code) {
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t low = bias + segments[i].p_vaddr;
    if (segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_X && low >= code->low &&
        low + segments[i].p_filesz <= code->high)
      return true;
  }
  return false;
}

static void other_inspect(other_search *search, const onstack_mapping *code) {
  onstack_elf_header header;
  ElfW(Phdr) segments[OTHER_SEGMENTS];
  if (search->read(search->low, &header, sizeof(header)) != sizeof(header)) return;
  if (!onstack_elf_header_is_known(&header)) return;
  if (header.segment_bytes != sizeof(segments[0]) || header.segment_count > OTHER_SEGMENTS) return;
  const size_t size = header.segment_count * sizeof(segments[0]);
  if (search->read(search->low + header.segments_offset, segments, size) != size) return;
  const ElfW(Phdr) *first = other_first(segments, header.segment_count);
  if (!first) return;
  struct dl_phdr_info object = {.dlpi_addr = search->low - (first->p_vaddr & ~(uint64_t)4095),
                                .dlpi_name = search->path,
                                .dlpi_phdr = segments,
                                .dlpi_phnum = header.segment_count};
  if (other_is_here(segments, header.segment_count, object.dlpi_addr, code)) search->visit(search->data, &object);
}

static void other_look_at(void *data, const onstack_mapping *mapping) {
  other_search *search = data;
  if (mapping->inode == 0) return;
  if (mapping->offset == 0 && mapping->readable) {
    search->low = mapping->low;
    strncpy(search->path, mapping->path, sizeof(search->path) - 1);
  }
  if (!mapping->executable || search->low == 0) return;
  other_inspect(search, mapping);
  search->low = 0;
}

void onstack_other_objects_each(size_t (*read)(uint64_t address, void *out, size_t size),
                                void (*visit)(void *data, struct dl_phdr_info *object), void *data) {
  other_search search = {.read = read, .visit = visit, .data = data, .path = ""};
  onstack_proc_maps_each(other_look_at, &search);
}
