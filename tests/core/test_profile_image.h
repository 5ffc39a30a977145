/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A small ELF image with everything that we read; code at file offset 0x1000 has virtual address 0x2000. */
#ifndef TEST_PROFILE_IMAGE_H
#define TEST_PROFILE_IMAGE_H

#include "platform/elf_file.h"

#include <stdio.h>
#include <string.h>

#define SYMBOLS 64

/* The tables stand close together, so that mutations hit them. */
typedef struct image {
  onstack_elf_header header;
  onstack_elf_segment segments[3];
  onstack_elf_section sections[6];
  struct {
    onstack_elf_note head;
    char name[4];
    uint8_t content[20];
  } note;
  onstack_elf_symbol symbols[SYMBOLS];
  char names[SYMBOLS * 12];
  uint8_t rest[1024];
} image;

static inline image image_make(void) {
  image it = {.header = {.ident = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                         .type = ONSTACK_ELF_TYPE_DYN,
                         .machine = 62,
                         .version = 1,
                         .segments_offset = offsetof(image, segments),
                         .sections_offset = offsetof(image, sections),
                         .header_bytes = 64,
                         .segment_bytes = 56,
                         .segment_count = 3,
                         .section_bytes = 64,
                         .section_count = 6}};
  it.segments[0] = (onstack_elf_segment){.type = 1, .flags = 4, .file_bytes = 0x1000, .memory_bytes = 0x1000};
  it.segments[1] = (onstack_elf_segment){
      .type = 1, .flags = 5, .offset = 0x1000, .vaddr = 0x2000, .file_bytes = 0x1000, .memory_bytes = 0x1000};
  it.segments[2] = (onstack_elf_segment){.type = 4,
                                         .flags = 4,
                                         .offset = offsetof(image, note),
                                         .vaddr = offsetof(image, note),
                                         .file_bytes = sizeof(it.note),
                                         .alignment = 4};
  it.sections[1] = (onstack_elf_section){.type = 1, .flags = 6, .vaddr = 0x2000, .offset = 0x1000, .bytes = 0x1000};
  it.sections[2] = (onstack_elf_section){.type = ONSTACK_ELF_SECTION_SYMTAB,
                                         .offset = offsetof(image, symbols),
                                         .bytes = sizeof(it.symbols),
                                         .link = 3,
                                         .entry_bytes = 24};
  it.sections[3] =
      (onstack_elf_section){.type = ONSTACK_ELF_SECTION_STRTAB, .offset = offsetof(image, names), .bytes = sizeof(it.names)};
  it.sections[4] = it.sections[2];
  it.sections[4].type = ONSTACK_ELF_SECTION_DYNSYM;
  it.sections[5] = (onstack_elf_section){
      .type = ONSTACK_ELF_SECTION_NOTE, .offset = offsetof(image, note), .bytes = sizeof(it.note), .alignment = 4};
  it.note.head = (onstack_elf_note){.name_bytes = 4, .content_bytes = 20, .type = ONSTACK_ELF_NOTE_BUILD_ID};
  memcpy(it.note.name, "GNU", 4);
  for (uint8_t i = 0; i < 20; i++) it.note.content[i] = i;
  for (uint32_t i = 1; i < SYMBOLS; i++) {
    snprintf(it.names + i * 12, 12, "function%02u", i);
    it.symbols[i] =
        (onstack_elf_symbol){.name = i * 12, .info = 1 << 4 | 2, .section = 1, .value = 0x2000 + i * 32, .size = 32};
  }
  return it;
}

#endif
