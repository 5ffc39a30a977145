/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/elf_file.h"

#include "platform/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <sys/stat.h>
#include <fcntl.h>

/* More than any linker makes; bounds what a hostile header can make us allocate (16 MiB). */
#define ONSTACK_ELF_SECTION_LIMIT ((uint64_t)1 << 18)

/*
 * Opens a file that somebody else named (the loader, /proc/self/maps) for reading; only a regular one: to open a pipe
 * would wait for its other end, and a device may act. Returns its descriptor and *size; -errno, or -ENOEXEC for what is
 * no regular file. Ordinary threads.
 */
static int elf_open_regular(const char *path, uint64_t *size) {
  struct stat status;
  if (stat(path, &status) != 0) return -errno;
  if (!S_ISREG(status.st_mode)) return -ENOEXEC;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return -errno;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0) {
    close(descriptor); /* replaced between stat and open */
    return -ENOEXEC;
  }
  *size = (uint64_t)status.st_size;
  return descriptor;
}

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
  file->descriptor = elf_open_regular(path, &file->size);
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

/* Notes before the build id are small (ABI tag, properties); what lies beyond this is not looked at. */
#define ONSTACK_ELF_NOTES_LIMIT ((uint64_t)64 * 1024)

/* A length rounded up; lengths here are sums of 32-bit numbers, so nothing wraps. */
static uint64_t elf_note_padded(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) & ~(alignment - 1); }

static bool elf_notes_scan(const uint8_t *notes, uint64_t size, uint64_t alignment, onstack_elf_build_id *id) {
  for (uint64_t at = 0; size - at >= sizeof(onstack_elf_note);) {
    onstack_elf_note note;
    memcpy(&note, notes + at, sizeof(note));
    uint64_t content = elf_note_padded(sizeof(note) + (uint64_t)note.name_bytes, alignment);
    uint64_t end = content + note.content_bytes;
    if (end > size - at) return false;
    if (note.type == ONSTACK_ELF_NOTE_BUILD_ID && note.name_bytes == 4 && memcmp(notes + at + sizeof(note), "GNU", 4) == 0 &&
        note.content_bytes > 0 && note.content_bytes <= ONSTACK_ELF_BUILD_ID_MAX) {
      id->length = note.content_bytes;
      memcpy(id->bytes, notes + at + content, note.content_bytes);
      return true;
    }
    end = elf_note_padded(end, alignment);
    if (end > size - at) return false; /* the last one may lack its padding */
    at += end;
  }
  return false;
}

static bool elf_notes_read(const onstack_elf_file *file, uint64_t offset, uint64_t size, uint64_t alignment,
                           onstack_elf_build_id *id) {
  if (size > ONSTACK_ELF_NOTES_LIMIT) size = ONSTACK_ELF_NOTES_LIMIT;
  uint8_t *notes = size == 0 ? NULL : malloc((size_t)size);
  if (!notes) return false;
  bool found =
      onstack_elf_read(file, offset, notes, (size_t)size) && elf_notes_scan(notes, size, alignment == 8 ? 8 : 4, id);
  free(notes);
  return found;
}

void onstack_elf_read_build_id(const onstack_elf_file *file, onstack_elf_build_id *id) {
  *id = (onstack_elf_build_id){0};
  /* Segments say the truth in memory; in a separate debug file only sections do. */
  for (uint32_t i = 0; i < file->section_count; i++) {
    const onstack_elf_section *section = &file->sections[i];
    if (section->type == ONSTACK_ELF_SECTION_NOTE &&
        elf_notes_read(file, section->offset, section->bytes, section->alignment, id)) {
      return;
    }
  }
  for (uint32_t i = 0; i < file->segment_count; i++) {
    const onstack_elf_segment *segment = &file->segments[i];
    if (segment->type == ONSTACK_ELF_SEGMENT_NOTE &&
        elf_notes_read(file, segment->offset, segment->file_bytes, segment->alignment, id)) {
      return;
    }
  }
}

static onstack_elf_stamp elf_stamp_make(const struct stat *status) {
#ifdef __APPLE__
  const struct timespec *modified = &status->st_mtimespec;
#else
  const struct timespec *modified = &status->st_mtim;
#endif
  return (onstack_elf_stamp){.inode = (uint64_t)status->st_ino,
                             .bytes = (uint64_t)status->st_size,
                             .modified_ns = (int64_t)modified->tv_sec * 1000000000 + modified->tv_nsec};
}

onstack_elf_stamp onstack_elf_stamp_of(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? elf_stamp_make(&status) : (onstack_elf_stamp){0};
}

bool onstack_elf_has_stamp(const onstack_elf_file *file, const onstack_elf_stamp *stamp) {
  struct stat status;
  if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0) return false;
  onstack_elf_stamp now = elf_stamp_make(&status);
  return now.inode == stamp->inode && now.bytes == stamp->bytes && now.modified_ns == stamp->modified_ns;
}
