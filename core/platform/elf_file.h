/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What we read of ELF, 64-bit little-endian. Declared here because <elf.h> is not everywhere we compile. */
#ifndef ONSTACK_PLATFORM_ELF_FILE_H
#define ONSTACK_PLATFORM_ELF_FILE_H

#include "platform/defs.h"

typedef struct onstack_elf_header {
  uint8_t ident[16];
  uint16_t type;
  uint16_t machine;
  uint32_t version;
  uint64_t entry;
  uint64_t segments_offset;
  uint64_t sections_offset;
  uint32_t flags;
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t segment_count;
  uint16_t section_bytes;
  uint16_t section_count;
  uint16_t section_names;
} onstack_elf_header;

typedef struct onstack_elf_segment {
  uint32_t type;
  uint32_t flags;
  uint64_t offset;
  uint64_t vaddr;
  uint64_t paddr;
  uint64_t file_bytes;
  uint64_t memory_bytes;
  uint64_t alignment;
} onstack_elf_segment;

typedef struct onstack_elf_section {
  uint32_t name;
  uint32_t type;
  uint64_t flags;
  uint64_t vaddr;
  uint64_t offset;
  uint64_t bytes;
  uint32_t link;
  uint32_t info;
  uint64_t alignment;
  uint64_t entry_bytes;
} onstack_elf_section;

typedef struct onstack_elf_symbol {
  uint32_t name;
  uint8_t info; /* binding << 4 | type */
  uint8_t other;
  uint16_t section;
  uint64_t value;
  uint64_t size;
} onstack_elf_symbol;

typedef struct onstack_elf_note {
  uint32_t name_bytes;
  uint32_t content_bytes;
  uint32_t type;
} onstack_elf_note;

_Static_assert(sizeof(onstack_elf_header) == 64, "ELF64 header");
_Static_assert(sizeof(onstack_elf_segment) == 56, "ELF64 program header");
_Static_assert(sizeof(onstack_elf_section) == 64, "ELF64 section header");
_Static_assert(sizeof(onstack_elf_symbol) == 24, "ELF64 symbol");

#define ONSTACK_ELF_CLASS_64 2
#define ONSTACK_ELF_LITTLE_ENDIAN 1
#define ONSTACK_ELF_TYPE_EXEC 2
#define ONSTACK_ELF_TYPE_DYN 3

#define ONSTACK_ELF_SEGMENT_LOAD 1u
#define ONSTACK_ELF_SEGMENT_NOTE 4u
#define ONSTACK_ELF_SEGMENT_EXECUTABLE 1u

#define ONSTACK_ELF_SECTION_SYMTAB 2u
#define ONSTACK_ELF_SECTION_STRTAB 3u
#define ONSTACK_ELF_SECTION_NOTE 7u
#define ONSTACK_ELF_SECTION_DYNSYM 11u
#define ONSTACK_ELF_SECTION_ALLOCATED 2u
#define ONSTACK_ELF_SECTION_EXECUTABLE 4u

#define ONSTACK_ELF_INDEX_UNDEFINED 0u
#define ONSTACK_ELF_INDEX_RESERVED 0xff00u

#define ONSTACK_ELF_SYMBOL_NOTYPE 0u
#define ONSTACK_ELF_SYMBOL_FUNCTION 2u
#define ONSTACK_ELF_SYMBOL_IFUNC 10u
#define ONSTACK_ELF_BIND_LOCAL 0u
#define ONSTACK_ELF_BIND_GLOBAL 1u
#define ONSTACK_ELF_BIND_WEAK 2u

#define ONSTACK_ELF_NOTE_BUILD_ID 3u

/*
 * A view of an ELF image: a file, or a mapped image in this process (the vdso, the first pages of a library).
 *
 * Nothing in the image is trusted: each offset, count and size is checked against the image's size before use, and
 * bytes are copied by pread or by the kernel (process_vm_readv), never read through a mapping, since a file may shrink
 * and a library may be unmapped while we look. An image that makes no sense has fewer tables, or does not open.
 */

typedef struct onstack_elf_file {
  int descriptor;   /* -1: an image in memory */
  uint64_t address; /* of an image in memory */
  uint64_t size;
  onstack_elf_segment *segments; /* NULL when segment_count is 0 */
  uint32_t segment_count;
  onstack_elf_section *sections; /* the same */
  uint32_t section_count;
  uint32_t section_names; /* the section that has their names; section_count and more: none */
  char *names;            /* what is in it; NULL: not read, it is empty or large */
} onstack_elf_file;

/* Whether it begins a program or a library, 64-bit little-endian. */
ONSTACK_INTERNAL bool onstack_elf_header_is_known(const onstack_elf_header *header);

/*
 * Opens. Only regular files are opened, so a path that names a pipe or a device neither blocks nor acts.
 * Errors: -errno; -ENOEXEC for what is not 64-bit little-endian ELF; -ENOMEM. On failure nothing is left to close.
 */
ONSTACK_INTERNAL int onstack_elf_open_file(onstack_elf_file *file, const char *path);
ONSTACK_INTERNAL int onstack_elf_open_memory(onstack_elf_file *file, uint64_t address, uint64_t size);

ONSTACK_INTERNAL void onstack_elf_close(onstack_elf_file *file);

/* Copies `length` bytes at `offset`; false when they are not all inside the image, or cannot be read. */
ONSTACK_INTERNAL bool onstack_elf_read(const onstack_elf_file *file, uint64_t offset, void *bytes, size_t length);

/*
 * Copies a section's name; of a long one what has room with a NUL. "" where there is none.
 */
ONSTACK_INTERNAL void onstack_elf_section_name(const onstack_elf_file *file, const onstack_elf_section *section, char *name,
                                               size_t room);

/*
 * Virtual address minus file offset of the code in a mapping of `length` bytes from a file offset. A mapping begins and
 * ends at pages, so the ends of two segments may lie in it: the executable one is meant. False when there is none.
 */
ONSTACK_INTERNAL bool onstack_elf_code_to_vaddr(const onstack_elf_file *file, uint64_t offset, uint64_t length,
                                                uint64_t *difference);

/* Which build an ELF file is. */

#define ONSTACK_ELF_BUILD_ID_MAX 64 /* bytes; linkers write 8 to 20 */

typedef struct onstack_elf_build_id {
  uint32_t length; /* 0: none */
  uint8_t bytes[ONSTACK_ELF_BUILD_ID_MAX];
} onstack_elf_build_id;

/* The build id of the GNU note; length 0 when there is none. */
ONSTACK_INTERNAL void onstack_elf_read_build_id(const onstack_elf_file *file, onstack_elf_build_id *id);

/* What tells a file from one that came into its place, where it has no build id; all zero: not known. */
typedef struct onstack_elf_stamp {
  uint64_t inode;
  uint64_t bytes;
  int64_t modified_ns;
} onstack_elf_stamp;

ONSTACK_INTERNAL onstack_elf_stamp onstack_elf_stamp_of(const char *path);
/* Whether an open file is still that one. */
ONSTACK_INTERNAL bool onstack_elf_has_stamp(const onstack_elf_file *file, const onstack_elf_stamp *stamp);

#endif
