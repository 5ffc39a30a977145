/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names for the addresses of a symbol table: from the host's symbolizer, from ELF files, from module and offset. */
#ifndef ONSTACK_PROFILE_ELF_SYMBOLIZE_H
#define ONSTACK_PROFILE_ELF_SYMBOLIZE_H

#include "profile/maps/maps.h"
#include "profile/elf/symbol_table.h"

/*
 * Asks the symbolizer (may be NULL), at once, for all addresses but those of files that others have taken the place of:
 * it knows what lies there now. Called without any lock of ours: it may take its time
 * and call this library. Errors: whatever it returns; -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_host(onstack_symbol_table *table, const onstack_profile_maps *maps,
                                                       onstack_symbolizer symbolizer, void *data);

/* Names the addresses without a name by ELF symbols. Files that cannot be read name nothing. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_elf(onstack_symbol_table *table, const onstack_profile_maps *maps);

/* Names what is left "libc.so.6+0x16db20", or "0x7f..." where nothing is mapped. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_symbolize_by_module(onstack_symbol_table *table, const onstack_profile_maps *maps);

#endif
