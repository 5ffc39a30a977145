/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/elf_file.h"

#include "platform/process_memory.h"
#include "platform/regular_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* More than any linker makes; bounds what a hostile header can make us allocate (16 MiB). */
#define ONSTACK_ELF_SECTION_LIMIT ((uint64_t)1 << 18)

static bool elf_read_file(int descriptor, uint64_t offset, void *bytes, size_t length) {
  char *next = bytes;
  while (length > 0) {
    ssize_t got = pread(descriptor, next, length, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false; /* 0: the file has shrunk since it was opened */
    next += got;
    offset += (uint64_t)got;
    length -= (size_t)got;
  }
  return true;
}

bool onstack_elf_read(const onstack_elf_file *file, uint64_t offset, void *bytes, size_t length) {
  if (offset > file->size || length > file->size - offset) return false;
  if (length == 0) return true;
  if (file->descriptor >= 0) return elf_read_file(file->descriptor, offset, bytes, length);
  return onstack_process_memory_read(file->address + offset, bytes, length);
}

/* Names of sections are some hundred bytes, and read at once; more than this is asked for one by one. */
#define ELF_NAMES_LIMIT ((uint64_t)1 << 16)

/* Reads `count` items of a table into new memory. NULL with *error 0: the table lies outside the image. */
static void *elf_read_table(const onstack_elf_file *file, uint64_t offset, uint64_t count, size_t item_bytes, int *error) {
  if (count == 0 || offset > file->size || count > (file->size - offset) / item_bytes) return NULL;
  void *table = malloc((size_t)count * item_bytes);
  if (!table) {
    *error = -ENOMEM;
    return NULL;
  }
  if (onstack_elf_read(file, offset, table, (size_t)count * item_bytes)) return table;
  free(table);
  return NULL;
}

/* The number of sections; where 16 bits are too few it stands in section 0. */
static uint64_t elf_count_sections(const onstack_elf_file *file, const onstack_elf_header *header) {
  if (header->sections_offset == 0 || header->section_bytes != sizeof(onstack_elf_section)) return 0;
  if (header->section_count != 0) return header->section_count;
  onstack_elf_section first;
  if (!onstack_elf_read(file, header->sections_offset, &first, sizeof(first))) return 0;
  return first.bytes <= ONSTACK_ELF_SECTION_LIMIT ? first.bytes : 0;
}

bool onstack_elf_header_is_known(const onstack_elf_header *header) {
  static const uint8_t ident[] = {0x7f, 'E', 'L', 'F', ONSTACK_ELF_CLASS_64, ONSTACK_ELF_LITTLE_ENDIAN};
  return memcmp(header->ident, ident, sizeof(ident)) == 0 &&
         (header->type == ONSTACK_ELF_TYPE_EXEC || header->type == ONSTACK_ELF_TYPE_DYN);
}

static void elf_read_names(onstack_elf_file *file, int *error) {
  if (file->section_names >= file->section_count) return;
  const onstack_elf_section *names = &file->sections[file->section_names];
  if (names->bytes <= ELF_NAMES_LIMIT) file->names = elf_read_table(file, names->offset, names->bytes, 1, error);
}

static int elf_read_tables(onstack_elf_file *file) {
  onstack_elf_header header;
  if (!onstack_elf_read(file, 0, &header, sizeof(header))) return -ENOEXEC;
  if (!onstack_elf_header_is_known(&header)) return -ENOEXEC;
  int error = 0;
  if (header.segment_bytes == sizeof(onstack_elf_segment)) {
    file->segments = elf_read_table(file, header.segments_offset, header.segment_count, sizeof(*file->segments), &error);
    if (file->segments) file->segment_count = header.segment_count;
  }
  uint64_t sections = elf_count_sections(file, &header);
  file->sections = elf_read_table(file, header.sections_offset, sections, sizeof(*file->sections), &error);
  if (file->sections) file->section_count = (uint32_t)sections;
  file->section_names = header.section_names;
  elf_read_names(file, &error);
  return error;
}

static int elf_open_tables(onstack_elf_file *file) {
  int error = elf_read_tables(file);
  if (error != 0) onstack_elf_close(file);
  return error;
}

int onstack_elf_open_file(onstack_elf_file *file, const char *path) {
  *file = (onstack_elf_file){.descriptor = -1};
  file->descriptor = onstack_regular_file_open(path, &file->size);
  if (file->descriptor < 0) return file->descriptor;
  return elf_open_tables(file);
}

int onstack_elf_open_memory(onstack_elf_file *file, uint64_t address, uint64_t size) {
  *file = (onstack_elf_file){.descriptor = -1, .address = address, .size = size};
  return elf_open_tables(file);
}

void onstack_elf_close(onstack_elf_file *file) {
  if (file->descriptor >= 0) close(file->descriptor);
  free(file->segments);
  free(file->sections);
  free(file->names);
  *file = (onstack_elf_file){.descriptor = -1};
}

void onstack_elf_section_name(const onstack_elf_file *file, const onstack_elf_section *section, char *name, size_t room) {
  memset(name, 0, room);
  if (file->section_names >= file->section_count) return;
  const onstack_elf_section *names = &file->sections[file->section_names];
  if (section->name >= names->bytes || names->offset > file->size) return;
  const uint64_t left = names->bytes - section->name;
  if (file->names)
    memcpy(name, file->names + section->name, left < room ? (size_t)left : room - 1);
  else if (!onstack_elf_read(file, names->offset + section->name, name, left < room ? (size_t)left : room - 1))
    name[0] = 0;
}

static bool elf_segment_meets(const onstack_elf_segment *segment, uint64_t offset, uint64_t length) {
  if (segment->type != ONSTACK_ELF_SEGMENT_LOAD) return false;
  return offset < segment->offset ? segment->offset - offset < length : offset - segment->offset < segment->file_bytes;
}

bool onstack_elf_code_to_vaddr(const onstack_elf_file *file, uint64_t offset, uint64_t length, uint64_t *difference) {
  const onstack_elf_segment *found = NULL;
  for (uint32_t i = 0; i < file->segment_count; i++) {
    const onstack_elf_segment *segment = &file->segments[i];
    if (!elf_segment_meets(segment, offset, length)) continue;
    if (!found || (segment->flags & ~found->flags & ONSTACK_ELF_SEGMENT_EXECUTABLE) != 0) found = segment;
  }
  if (!found) return false;
  *difference = found->vaddr - found->offset;
  return true;
}
