/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of generated code as compilers at run time give them to debuggers: ELF images in memory, in a list that begins at
 * __jit_debug_descriptor (GDB's manual, "JIT Compilation Interface"). wasmtime with debug information, LLVM's ORC with its
 * plugin for debuggers, Julia and others do.
 */
#ifndef ONSTACK_PROFILE_GENERATED_GDB_JIT_H
#define ONSTACK_PROFILE_GENERATED_GDB_JIT_H

#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

/*
 * Names addresses without a name that lie in no program or library, by what is registered now: code that is gone has no
 * name there any more. The compilers change the list while it is read, under a lock that is not ours. So it is copied, and an
 * image counts only if the list held it before and after it was read. Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_gdb_jit(onstack_symbol_table *table, const onstack_profile_maps *maps);

#endif
