/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the symbols of a mapped module are: the file itself, its separate debug file, or the image in memory. */
#ifndef ONSTACK_PROFILE_ELF_ELF_MODULE_H
#define ONSTACK_PROFILE_ELF_ELF_MODULE_H

#include "profile/elf/elf_symbols.h"
#include "profile/maps/maps.h"

/*
 * Names queries (sorted virtual addresses) from .symtab, then from the .symtab of the debug file of the build id, then
 * from .dynsym. A file whose build id is another than that of the mapped code (replaced since) is not used.
 * Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_elf_module_symbols(const onstack_profile_mapping *mapping, onstack_elf_query *queries,
                                                size_t count, onstack_profile_arena *names);

/*
 * Opens the file with the best symbol table of a module: its own if that has .symtab, else its debug file, else its own.
 * The caller closes it. Errors: -errno, -ENOEXEC, -ENOMEM; nothing is open then.
 */
ONSTACK_INTERNAL int onstack_elf_module_open_best(onstack_elf_file *file, const onstack_profile_mapping *mapping);

#endif
