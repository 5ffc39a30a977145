/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/frame_section.h"

#include "platform/elf_file.h"
#include "platform/process_memory.h"

#include <string.h>

#define FRAME_SEGMENTS 64u /* linkers write about ten */

/* A file that has replaced the loaded one has other segments. */
static bool frame_file_is_loaded(const onstack_elf_file *file, uint64_t base) {
  onstack_elf_header header;
  onstack_elf_segment loaded[FRAME_SEGMENTS];
  const size_t size = file->segment_count * sizeof(loaded[0]);
  if (file->segment_count == 0 || file->segment_count > FRAME_SEGMENTS) return false;
  if (onstack_process_memory_copy(base, &header, sizeof(header)) != sizeof(header)) return false;
  if (!onstack_elf_header_is_known(&header)) return false;
  if (onstack_process_memory_copy(base + header.segments_offset, loaded, size) != size) return false;
  return memcmp(loaded, file->segments, size) == 0;
}

/* The segment that the file's first bytes are in, which lies at the object's base; NULL: there is none. */
static const onstack_elf_segment *frame_first_segment(const onstack_elf_file *file) {
  for (uint32_t i = 0; i < file->segment_count; i++) {
    const onstack_elf_segment *segment = &file->segments[i];
    if (segment->type == ONSTACK_ELF_SEGMENT_LOAD) return segment->offset == 0 ? segment : NULL;
  }
  return NULL;
}

static const onstack_elf_section *frame_find_section(const onstack_elf_file *file) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    char name[sizeof(".eh_frame") + 1];
    const onstack_elf_section *section = &file->sections[i];
    onstack_elf_section_name(file, section, name, sizeof(name));
    if (section->vaddr != 0 && strcmp(name, ".eh_frame") == 0) return section;
  }
  return NULL;
}

bool onstack_frame_section_find(const char *path, uint64_t base, uint64_t *low, uint64_t *high) {
  onstack_elf_file file;
  bool found = false;
  if (onstack_elf_open_file(&file, path) < 0) return false;
  const onstack_elf_segment *first = frame_first_segment(&file);
  const onstack_elf_section *section = frame_find_section(&file);
  if (first && section && frame_file_is_loaded(&file, base)) {
    *low = base - first->vaddr + section->vaddr;
    found = !__builtin_add_overflow(*low, section->bytes, high) && *low >= base && *high > *low;
  }
  onstack_elf_close(&file);
  return found;
}
