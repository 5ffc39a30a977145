/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which code lies where: the executable mappings of the process, over the life of a profile.
 *
 * A set is never changed once made, and counted: a writer keeps the one that it took while the sink's side makes the
 * next. A next set is what the kernel says now, plus, in the gaps, what an earlier set knew and is gone (libraries
 * unloaded since): their samples keep their names. Where a new library took the place of an old one, the new one has
 * the addresses.
 */
#ifndef ONSTACK_PROFILE_MAPS_H
#define ONSTACK_PROFILE_MAPS_H

#include "base/defs.h"
#include "profile/arena.h"
#include "profile/elf_file.h"
#include "profile/maps_text.h"

typedef struct onstack_profile_mapping {
  uint64_t start;
  uint64_t limit;
  uint64_t offset; /* file offset of start */
  uint64_t device;
  uint64_t inode;
  const char *path; /* in the set's arena; "" for anonymous memory */
  uint64_t image;   /* where the file's first byte is mapped, 0: not known; as long as `retired` is false */
  uint64_t image_bytes;
  /* Taken from the image in memory while it is there, so that they fit the code that ran, whatever happens to the
     file later. */
  onstack_elf_build_id build_id;
  uint64_t vaddr_difference; /* virtual address minus file offset; 0 for what is not ELF */
  bool main;                 /* holds the program's entry point */
  bool deleted;
  bool retired;
} onstack_profile_mapping;

typedef struct onstack_profile_maps {
  size_t references;
  onstack_profile_mapping *items; /* sorted by address, disjoint */
  size_t count;
  size_t capacity;
  onstack_profile_arena arena;
} onstack_profile_maps;

/*
 * Reads the mappings of now and unites them with `previous` (may be NULL; not changed, its reference stays the
 * caller's). With `keep_retired` false what is gone is forgotten. Where there is no /proc the set is empty.
 * Returns a set with one reference; NULL when memory is out.
 */
ONSTACK_INTERNAL onstack_profile_maps *onstack_profile_maps_read(const onstack_profile_maps *previous,
                                                                 bool keep_retired);

/* True: it was the last reference, and the caller frees the set (outside the lock). Two profiles can share a set for a
   while (onstack_profile_take under a writer), so counts are atomic. */
ONSTACK_INTERNAL bool onstack_profile_maps_drop(onstack_profile_maps *maps);
ONSTACK_INTERNAL void onstack_profile_maps_free(onstack_profile_maps *maps);

/* The mapping that holds an address, or NULL. */
ONSTACK_INTERNAL const onstack_profile_mapping *onstack_profile_maps_find(const onstack_profile_maps *maps,
                                                                          uint64_t address);

/* Whether it is a file with a name (not anonymous memory, "[vdso]", "[stack]", "//anon"). */
ONSTACK_INTERNAL bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping);

/* The last component of its path. */
ONSTACK_INTERNAL const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping);

/* The address as the file counts it: virtual for ELF, the offset for other files. */
ONSTACK_INTERNAL uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address);

#endif
