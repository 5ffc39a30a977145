/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a file has an object of a given name. */
#ifndef ONSTACK_PROFILE_ELF_ELF_OBJECT_H
#define ONSTACK_PROFILE_ELF_ELF_OBJECT_H

#include "base/elf_file.h"

/* Looks in the table of this type (ONSTACK_ELF_SECTION_SYMTAB or _DYNSYM). Names are read once, and symbols only where one
   of them is that name. False: it has none, or memory is out. */
ONSTACK_INTERNAL bool onstack_elf_object_find(const onstack_elf_file *file, uint32_t table_type, const char *name,
                                              uint64_t *vaddr);

#endif
