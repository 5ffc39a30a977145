/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of generated code as compilers at run time give them to debuggers: ELF images in memory, in a list that begins at
 * __jit_debug_descriptor (GDB's manual, "JIT Compilation Interface"). wasmtime with debug information, LLVM's ORC with its
 * plugin for debuggers, Julia and others do.
 */
#ifndef ONSTACK_PROFILE_GENERATED_GDB_JIT_H
#define ONSTACK_PROFILE_GENERATED_GDB_JIT_H

#include "profile/elf/elf_symbols.h"
#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

/*
 * Answers queries of addresses as the process has them, sorted and without names, by what is registered now: code that is gone
 * has no name there any more (kept_names.h has it). The compilers change the list while it is read, under a lock that is not
 * ours. So it is copied, and an image counts only if the list held it before and after it was read. `engines`, beside the
 * queries, gets the names of modules, which are those of `maps`. Returns how many images were skipped, or -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_gdb_jit_find(const onstack_profile_maps *maps, onstack_elf_query *queries, const char **engines,
                                          size_t count, onstack_profile_arena *names);

#endif
