/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The dynamic symbols of an object that the loader or the kernel has put into memory. Everything is read by copies, because a
 * host can truncate the object's file. Ordinary threads.
 */
#ifndef ONSTACK_PLATFORM_LOADED_SYMBOLS_H
#define ONSTACK_PLATFORM_LOADED_SYMBOLS_H

#include "platform/defs.h"

#ifdef __linux__
#include <elf.h>

/* Addresses; 0: the object has no such table. */
typedef struct onstack_loaded_symbols {
  uint64_t symbols, strings;
  uint64_t hash, gnu_hash;
  uint64_t calls, calls_bytes; /* relocations of functions */
  uint64_t data, data_bytes;   /* others */
} onstack_loaded_symbols;

/* `dynamic`: the address of its PT_DYNAMIC segment; `bias`: what was added to its virtual addresses. Returns false if it has no
   symbols. */
ONSTACK_INTERNAL bool onstack_loaded_symbols_read(uint64_t dynamic, uint64_t bias, onstack_loaded_symbols *symbols);

/* Copies the symbol of this name and type (STT_*; STT_NOTYPE: any) that the object defines. Returns false if there is none. */
ONSTACK_INTERNAL bool onstack_loaded_symbols_find(const onstack_loaded_symbols *symbols, const char *name, uint8_t type,
                                                  Elf64_Sym *found);

/* Returns true if the object asks the loader for a function of this name. */
ONSTACK_INTERNAL bool onstack_loaded_symbols_wants(uint64_t dynamic, uint64_t bias, const char *name);
#endif

#endif
