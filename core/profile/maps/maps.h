/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which code lies where: the executable mappings of the process, over the life of a profile.
 *
 * A set is counted, because a writer keeps the set that it took while the sink reads the next one. The next set has the
 * mappings that the kernel reports now, and the files that an earlier set knew and that are gone: their samples keep their
 * names. One address of a set means one place of one file, for ever. If another file, or generated code, takes the place of
 * a program or library, the set keeps the old file, and samples of the new code have the address ONSTACK_MAPS_UNKNOWN. They
 * get names in a profile that begins, or is cleared, after the change, or once the old file is back.
 */
#ifndef ONSTACK_PROFILE_MAPS_MAPS_H
#define ONSTACK_PROFILE_MAPS_MAPS_H

#include "platform/defs.h"
#include "platform/elf_file.h"
#include "platform/loader.h"
#include "profile/store/store.h"

/* Between the addresses of processes and those of kernels, where no machine has code. */
#define ONSTACK_MAPS_UNKNOWN ((uint64_t)1 << 63)
#define ONSTACK_MAPS_UNKNOWN_FRAME "[replaced code]"

typedef struct onstack_profile_mapping {
  uint64_t start;
  uint64_t limit;
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
  /* Other code may have lain here after lost_ns and before back_ns (monotonic). back_ns is 0 if no other code was found here,
     and UINT64_MAX as long as the file is not back. */
  uint64_t lost_ns, back_ns;
  bool main; /* holds the program's entry point */
  bool deleted;
  bool retired;  /* the file is not mapped here now */
  bool replaced; /* retired, and something else is mapped here */
  bool loaded;   /* when the loader was last asked, its object was the one that it was when the set was read */
} onstack_profile_mapping;

typedef struct onstack_profile_maps {
  size_t references;
  onstack_profile_mapping *items; /* sorted by address, disjoint */
  size_t count;
  size_t capacity;
  size_t forgotten; /* files that are gone and found no room, in this set and those before */
  onstack_profile_arena arena;
} onstack_profile_maps;

/* Reads the mappings of now into a set with one reference. Where there is no /proc the loader is asked. Returns NULL if there
   is no memory. */
ONSTACK_INTERNAL onstack_profile_maps *onstack_profile_maps_read(void);

/* Returns true if it was the last reference; the caller frees the set, outside the lock. Two profiles can share a set for a
   while (onstack_profile_take under a writer), so counts are atomic. */
ONSTACK_INTERNAL bool onstack_profile_maps_drop(onstack_profile_maps *maps);
ONSTACK_INTERNAL void onstack_profile_maps_free(onstack_profile_maps *maps);

/* Returns the mapping that holds an address, or NULL. */
ONSTACK_INTERNAL const onstack_profile_mapping *onstack_profile_maps_find(const onstack_profile_maps *maps,
                                                                          uint64_t address);

/* Returns false if an address of the set means a file in whose place something else is mapped now. */
ONSTACK_INTERNAL bool onstack_profile_maps_is_now(const onstack_profile_maps *maps, uint64_t address);

/* Unites the mappings of now, sorted, which are all that `maps` has, with an earlier set's, which were last found true at
   `until_ns`. Returns false if there is no memory. */
ONSTACK_INTERNAL bool onstack_profile_maps_unite(onstack_profile_maps *maps, const onstack_profile_maps *previous,
                                                 uint64_t until_ns);

/* Fills an empty set by what the loader knows, without build ids. Returns false if there is no memory. */
ONSTACK_INTERNAL bool onstack_profile_maps_ask_loader(onstack_profile_maps *maps);

/* Whether it is a file with a name (not anonymous memory, "[vdso]", "[stack]", "//anon"). */
ONSTACK_INTERNAL bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping);

/* Whether its file is a program or library, or may have been one; false: code in it was generated, as that of engines which
   map their memory twice (.NET) or compile in advance (wasmtime). */
ONSTACK_INTERNAL bool onstack_profile_mapping_is_image(const onstack_profile_mapping *mapping);

/* The last component of its path. */
ONSTACK_INTERNAL const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping);

/* The address as the file counts it: virtual for ELF, the offset for other files. */
ONSTACK_INTERNAL uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address);

/*
 * A profile's set of now. A sample arrives after it was taken, and in between a library may have taken the place of another.
 * The profile's lock covers every call. Writers do not read `back_ns` and `loaded` of a set, so these may still change.
 */
typedef struct onstack_profile_history {
  onstack_profile_maps *maps;     /* never NULL */
  onstack_loader_counts loaded;   /* when `maps` was read; zeros where the loader cannot be asked */
  onstack_loader_counts compared; /* when the mappings' `loaded` was set */
  uint64_t until_ns;              /* when `maps` was last found true; 0: never; monotonic */
} onstack_profile_history;

/* Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_history_open(onstack_profile_history *history);
ONSTACK_INTERNAL void onstack_profile_history_close(onstack_profile_history *history);

/* In the child of a fork whose parent had a thread that was changing it. */
ONSTACK_INTERNAL void onstack_profile_history_after_fork(onstack_profile_history *history);

/* Reads the mappings of now; without memory the old set stays in use. With `keep_retired` false, files that are gone are
   forgotten. Returns a set that the caller frees without the lock, or NULL. */
ONSTACK_INTERNAL onstack_profile_maps *onstack_profile_history_read(onstack_profile_history *history, bool keep_retired);

/* Returns true if objects were loaded or unloaded since the set was read; otherwise it is true until this moment. */
ONSTACK_INTERNAL bool onstack_profile_history_has_changed(onstack_profile_history *history);

/* After a change: returns true if an address lies in an object that was loaded when the set was read and still is. Such an
   address needs no new set, which costs more than many samples. */
ONSTACK_INTERNAL bool onstack_profile_history_still_holds(const onstack_profile_history *history, uint64_t address);

/* The set's address for an address of the process at a time (0: now); ONSTACK_MAPS_UNKNOWN if it is not known which code lay
   there. */
ONSTACK_INTERNAL uint64_t onstack_profile_history_resolve(const onstack_profile_history *history, uint64_t address,
                                                          uint64_t time_ns);

#endif
