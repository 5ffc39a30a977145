/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The dynamic symbols of an object that lies in memory, as the loader or the kernel has put it there: trusted as that is. */
#ifndef ONSTACK_BASE_LOADED_SYMBOLS_H
#define ONSTACK_BASE_LOADED_SYMBOLS_H

#include "base/defs.h"

#ifdef __linux__
#include <elf.h>

typedef struct onstack_loaded_symbols {
  const Elf64_Sym *symbols;
  const char *strings;
  uint64_t count;
  const uint32_t *gnu_hash; /* NULL: there is no such table */
} onstack_loaded_symbols;

/* `bias`: what was added to its virtual addresses. False: it has none. As long as the object is there. */
ONSTACK_INTERNAL bool onstack_loaded_symbols_read(const Elf64_Dyn *dynamic, uint64_t bias, onstack_loaded_symbols *symbols);

/* A symbol of this name and type (STT_*; STT_NOTYPE: any) that the object defines; NULL: it has none. */
ONSTACK_INTERNAL const Elf64_Sym *onstack_loaded_symbols_find(const onstack_loaded_symbols *symbols, const char *name,
                                                              uint8_t type);

/* Whether the object asks the loader for a function of this name. As long as the object is there. */
ONSTACK_INTERNAL bool onstack_loaded_symbols_wants(const Elf64_Dyn *dynamic, uint64_t bias, const char *name);
#endif

#endif
