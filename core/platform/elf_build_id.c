/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/elf_build_id.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
