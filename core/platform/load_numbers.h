/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
#ifndef ONSTACK_PLATFORM_LOAD_NUMBERS_H
#define ONSTACK_PLATFORM_LOAD_NUMBERS_H

#include "platform/defs.h"

#ifdef __linux__
#include <link.h>

/* One walk along the loader's own list, beside that of dl_iterate_phdr. */
typedef struct onstack_load_walk {
  const struct link_map *next; /* NULL: objects have no numbers from here on */
} onstack_load_walk;

/* Before dl_iterate_phdr. */
ONSTACK_INTERNAL void onstack_load_walk_begin(onstack_load_walk *walk);

/* In each visit of dl_iterate_phdr, which holds the loader's lock. Returns the object's number; 0 if it is not known. */
ONSTACK_INTERNAL uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info);
#endif

#endif
