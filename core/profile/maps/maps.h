/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which code lies where: the executable mappings of the process, over the life of a profile.
 *
 * A set is never changed once made, and counted: a writer keeps the one that it took while the sink's side makes the
 * next. A next set is what the kernel says now, plus what an earlier set knew and is gone (libraries unloaded since):
 * their samples keep their names.
 *
 * Addresses of a set are those of the process as long as one file only has lain there. What comes into the place of an
 * old file gets addresses of its own, from ONSTACK_MAPS_ALIAS on, where no process has any: stacks that were counted
 * before mean the old file, and stay as they are. So one address of a set means one place of one file, for ever. (An
 * alias is kept for a file that comes back, as plugins do that replace each other.)
 */
#ifndef ONSTACK_PROFILE_MAPS_MAPS_H
#define ONSTACK_PROFILE_MAPS_MAPS_H

#include "platform/defs.h"
#include "platform/elf_file.h"
#include "profile/store/store.h"

/* Between what processes have and what kernels have: no machine has code there. */
#define ONSTACK_MAPS_ALIAS ((uint64_t)1 << 63)
#define ONSTACK_MAPS_ALIAS_END (ONSTACK_MAPS_ALIAS + ((uint64_t)1 << 62))
/* The address of what cannot be told: samples from the moment between two files. */
#define ONSTACK_MAPS_UNKNOWN (ONSTACK_MAPS_ALIAS_END - 1)
#define ONSTACK_MAPS_UNKNOWN_FRAME "[library just replaced]"

typedef struct onstack_profile_mapping {
  uint64_t start;
  uint64_t limit;
  uint64_t real;   /* where start lies in the process */
  uint64_t offset; /* file offset of start */
  uint64_t device;
  uint64_t inode;
  const char *path; /* in the set's arena; "" for anonymous memory */
  uint64_t image;   /* where the file's first byte is mapped, 0: not known; as long as `retired` is false */
  uint64_t image_bytes;
  uint64_t load; /* the loader's number of the object that it belongs to (platform/loader.h); 0: not known */
  /* Taken from the image in memory while it is there, so that they fit the code that ran, whatever happens to the
     file later. */
  onstack_elf_build_id build_id;
  onstack_elf_stamp stamp;   /* of a file without a build id */
  uint64_t vaddr_difference; /* virtual address minus file offset; 0 for what is not ELF */
  bool main;                 /* holds the program's entry point */
  bool deleted;
  bool retired;
  bool latest; /* of aliases: nothing has come into its place yet */
} onstack_profile_mapping;

typedef struct onstack_profile_maps {
  size_t references;
  onstack_profile_mapping *items; /* sorted by address, disjoint */
  size_t count;
  size_t capacity;
  size_t alias_first; /* of `items` */
  size_t alias_count;
  bool full;        /* some of what came into another file's place has no address, or some of what is gone no place */
  size_t forgotten; /* pieces of what is gone that found no room, in this set and those before */
  onstack_profile_arena arena;
} onstack_profile_maps;

/*
 * Reads the mappings of now and unites them with `previous` (may be NULL; not changed, its reference stays the
 * caller's). With `keep_retired` false what is gone is forgotten. `changed`: objects may have been loaded since, and each
 * is looked at anew. Where there is no /proc the loader is asked.
 * Returns a set with one reference; NULL when memory is out.
 */
ONSTACK_INTERNAL onstack_profile_maps *onstack_profile_maps_read(const onstack_profile_maps *previous, bool keep_retired,
                                                                 bool changed);

/* True: it was the last reference, and the caller frees the set (outside the lock). Two profiles can share a set for a
   while (onstack_profile_take under a writer), so counts are atomic. */
ONSTACK_INTERNAL bool onstack_profile_maps_drop(onstack_profile_maps *maps);
ONSTACK_INTERNAL void onstack_profile_maps_free(onstack_profile_maps *maps);

/* The mapping that holds an address, or NULL. */
ONSTACK_INTERNAL const onstack_profile_mapping *onstack_profile_maps_find(const onstack_profile_maps *maps,
                                                                          uint64_t address);

/* The set's address of a place in the process, by what lies there or lay there last. */
ONSTACK_INTERNAL uint64_t onstack_profile_maps_place(const onstack_profile_maps *maps, uint64_t real);

/* Whether another file lay at a place in the process before the one that lay there last. */
ONSTACK_INTERNAL bool onstack_profile_maps_was_replaced(const onstack_profile_maps *maps, uint64_t real);

/* Whether an address of the set means what lies at *real now; false: nobody but the set knows it. */
ONSTACK_INTERNAL bool onstack_profile_maps_is_now(const onstack_profile_maps *maps, uint64_t address, uint64_t *real);

/* For onstack_profile_maps_read: unites the mappings of now, sorted, which are all that the set has, with an earlier
   set's. False: no memory. */
ONSTACK_INTERNAL bool onstack_profile_maps_unite(onstack_profile_maps *maps, const onstack_profile_maps *previous);

/* For onstack_profile_maps_read: fills an empty set by what the loader knows; not identified yet. False: no memory. */
ONSTACK_INTERNAL bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps);

/* Adds a copy; its path is in the set's arena. NULL: no memory. */
ONSTACK_INTERNAL onstack_profile_mapping *onstack_profile_maps_append(onstack_profile_maps *maps,
                                                                      const onstack_profile_mapping *mapping,
                                                                      const char *path, size_t path_length);

/* Whether it is a file with a name (not anonymous memory, "[vdso]", "[stack]", "//anon"). */
ONSTACK_INTERNAL bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping);

/* Whether its file is a program or library, or may have been one; false: code in it was generated, as that of engines which
   map their memory twice (.NET) or compile in advance (wasmtime). */
ONSTACK_INTERNAL bool onstack_profile_mapping_is_image(const onstack_profile_mapping *mapping);

/* The last component of its path. */
ONSTACK_INTERNAL const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping);

/* The address as the file counts it: virtual for ELF, the offset for other files. */
ONSTACK_INTERNAL uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address);

/* Where an address of the mapping lies in the process. */
ONSTACK_INTERNAL uint64_t onstack_profile_mapping_real(const onstack_profile_mapping *mapping, uint64_t address);

#endif
