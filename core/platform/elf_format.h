/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What we read of ELF, 64-bit little-endian. Declared here because <elf.h> is not everywhere we compile. */
#ifndef ONSTACK_PLATFORM_ELF_FORMAT_H
#define ONSTACK_PLATFORM_ELF_FORMAT_H

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

#endif
