/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A view of an ELF image: a file, or a mapped image in this process (the vdso, the first pages of a library).
 *
 * Nothing in the image is trusted: each offset, count and size is checked against the image's size before use, and
 * bytes are copied by pread or by the kernel (process_vm_readv), never read through a mapping, since a file may shrink
 * and a library may be unmapped while we look. An image that makes no sense has fewer tables, or does not open.
 */
#ifndef ONSTACK_PLATFORM_ELF_FILE_H
#define ONSTACK_PLATFORM_ELF_FILE_H

#include "platform/defs.h"
#include "platform/elf_format.h"

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

#endif
