/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Objects that the loader has loaded: the list of them, their program headers, numbers and symbols. */
#ifndef ONSTACK_PLATFORM_LOADER_H
#define ONSTACK_PLATFORM_LOADER_H

#include "platform/defs.h"

/* How many objects were loaded and unloaded so far, in all namespaces: the same counts, the same objects. */
typedef struct onstack_loader_counts {
  uint64_t adds, subs;
} onstack_loader_counts;

/* Reads the counts; false, and *counts as it was, where the loader cannot be asked. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_loader_count(onstack_loader_counts *counts);

static inline __attribute__((unused)) bool onstack_loader_same(const onstack_loader_counts *a,
                                                               const onstack_loader_counts *b) {
  return a->adds == b->adds && a->subs == b->subs;
}

#ifdef __linux__
#include <elf.h>
#include <link.h>

#define ONSTACK_OBJECT_HEADERS 64u /* of an object: linkers write about ten */

/* An object with a copy of its program headers. They lie in the object's first page, which a host can truncate in its file:
   then a load there raises SIGBUS. */
typedef struct onstack_object_copy {
  struct dl_phdr_info info; /* its headers are those below */
  ElfW(Phdr) headers[ONSTACK_OBJECT_HEADERS];
} onstack_object_copy;

/* Copies the headers that can be read, at most ONSTACK_OBJECT_HEADERS. Ordinary threads. */
ONSTACK_INTERNAL void onstack_object_copy_headers(const struct dl_phdr_info *info, onstack_object_copy *copy);

/* In a visit: where the object's first segment of that type (PT_*) lies; 0: it has none. */
static inline __attribute__((unused)) uint64_t onstack_object_segment(const struct dl_phdr_info *info, uint32_t type) {
  for (uint32_t i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == type) return info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
  return 0;
}

/*
 * A number for each object that the loader has loaded, which no other object of the process's life has. Extents and paths do
 * not tell objects apart: a library can be unloaded, another one can take its place, and the first can return to it, between
 * two looks at the loader's list.
 *
 * glibc numbers objects in the order in which it loads them (elf/dl-object.c, l_serial), in a part of its link_map that is not
 * public. The word follows the address and the size of the object's RELRO segment, which the program header has too. The
 * offset is used if all objects agree on it, and if the words in the list of objects begin with 0 and increase, as such numbers
 * do. Other loaders, and lists of other namespaces, have no numbers here.
 */

#define ONSTACK_LOAD_FIRST 2u /* the program; the loader itself, which glibc does not number, comes before it */

/* One walk along the loader's own list, beside that of dl_iterate_phdr. */
typedef struct onstack_load_walk {
  const struct link_map *next; /* NULL: objects have no numbers from here on */
} onstack_load_walk;

/* Before dl_iterate_phdr. */
ONSTACK_INTERNAL void onstack_load_walk_begin(onstack_load_walk *walk);

/* In each visit of dl_iterate_phdr, which holds the loader's lock. Returns the object's number; 0 if it is not known. */
ONSTACK_INTERNAL uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info);

/* Returns true if the object of this number was loaded when the counts were read. */
static inline __attribute__((unused)) bool onstack_load_is_before(uint64_t number, const onstack_loader_counts *counts) {
  return number != 0 && number < ONSTACK_LOAD_FIRST + counts->adds;
}

/*
 * The loader's locks, and what a fork makes of them. glibc takes one for dl_iterate_phdr, others for dlopen, dladdr and for
 * the thread-local storage of a new thread, and never gives them back in the child of a fork whose parent had a thread inside
 * at that instant: the child's next dlopen, a name service's as a rule, would wait for ever, in a program that has no threads
 * but ours. So threads of ours are counted while they are inside, fork waits until none is, and none goes in while a thread
 * forks.
 *
 * Both wait for a moment only: who forks inside a constructor has the loader's lock that ours wait for. A child that had to be
 * made all the same does not ask the loader, and lives with what its parent knew. (A thread of the host inside dlopen has the
 * same effect, and cannot be seen from here.)
 */

/* Around each call of ours that takes one of its locks. Ordinary threads. */
ONSTACK_INTERNAL void onstack_loader_enter(void);
ONSTACK_INTERNAL void onstack_loader_leave(void);

/* Before fork, and in the parent when it is over. They may nest. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_loader_before_fork(void);
ONSTACK_INTERNAL void onstack_loader_forked(void);

/* In the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_loader_after_fork(void);

/* As dl_iterate_phdr, with copied headers; false, and no call, where the loader cannot be asked. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);

/* The same without a copy: a visit that needs the headers copies them. `number`: of onstack_load_walk_step. */
ONSTACK_INTERNAL bool onstack_loader_each_load(int (*visit)(const struct dl_phdr_info *info, uint64_t number, void *data),
                                               void *data);

/* In a visit: every object knows them. */
static inline __attribute__((unused)) onstack_loader_counts onstack_loader_counts_in(const struct dl_phdr_info *info) {
  return (onstack_loader_counts){info->dlpi_adds, info->dlpi_subs};
}

/*
 * The dynamic symbols of an object that the loader or the kernel has put into memory. Everything is read by copies, because a
 * host can truncate the object's file. Ordinary threads.
 */

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

/*
 * Keeps the object that holds this code mapped for ever: the handler may be reached after the last stop (a pending
 * signal, an owner that restores our pointer), also when the library is a static part of a plugin that is closed.
 * Idempotent. Under the control lock, or before this library has a thread.
 */
ONSTACK_INTERNAL void onstack_pin_self(void);
#endif

#endif
