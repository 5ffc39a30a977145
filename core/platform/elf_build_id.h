/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which build an ELF file is. */
#ifndef ONSTACK_PLATFORM_ELF_BUILD_ID_H
#define ONSTACK_PLATFORM_ELF_BUILD_ID_H

#include "platform/elf_file.h"

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
