/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/gdb_jit_places.h"

#include "profile/elf/elf_module.h"

#include <pthread.h>
#include <string.h>

#define GDB_JIT_FILES 512u /* that are remembered; others are read each time */

typedef struct gdb_jit_place {
  onstack_elf_build_id build_id;
  onstack_elf_stamp stamp; /* of a file without a build id */
  uint64_t vaddr;          /* 0: it has none */
} gdb_jit_place;

/* Whoever finds it locked reads the file instead: in the child of a fork it may stay locked. */
static pthread_mutex_t gdb_jit_lock = PTHREAD_MUTEX_INITIALIZER;
static gdb_jit_place gdb_jit_places[GDB_JIT_FILES];
static uint32_t gdb_jit_place_count;

static bool gdb_jit_is_known(const onstack_profile_mapping *mapping) {
  return mapping->build_id.length > 0 || mapping->stamp.inode != 0;
}

static bool gdb_jit_is_of(const gdb_jit_place *place, const onstack_profile_mapping *mapping) {
  const onstack_elf_build_id *id = &mapping->build_id;
  const onstack_elf_stamp *a = &place->stamp, *b = &mapping->stamp;
  if (place->build_id.length != id->length) return false;
  if (id->length > 0) return memcmp(place->build_id.bytes, id->bytes, id->length) == 0;
  return a->inode == b->inode && a->bytes == b->bytes && a->modified_ns == b->modified_ns;
}

static bool gdb_jit_recall(const onstack_profile_mapping *mapping, uint64_t *vaddr) {
  bool found = false;
  if (!gdb_jit_is_known(mapping) || pthread_mutex_trylock(&gdb_jit_lock) != 0) return false;
  for (uint32_t i = 0; i < gdb_jit_place_count && !found; i++) {
    found = gdb_jit_is_of(&gdb_jit_places[i], mapping);
    if (found) *vaddr = gdb_jit_places[i].vaddr;
  }
  pthread_mutex_unlock(&gdb_jit_lock);
  return found;
}

static void gdb_jit_remember(const onstack_profile_mapping *mapping, uint64_t vaddr) {
  if (!gdb_jit_is_known(mapping) || pthread_mutex_trylock(&gdb_jit_lock) != 0) return;
  if (gdb_jit_place_count < GDB_JIT_FILES)
    gdb_jit_places[gdb_jit_place_count++] = (gdb_jit_place){mapping->build_id, mapping->stamp, vaddr};
  pthread_mutex_unlock(&gdb_jit_lock);
}

uint64_t onstack_gdb_jit_descriptor(const onstack_profile_maps *maps, const onstack_profile_mapping *mapping) {
  uint64_t real, vaddr = 0;
  if (!onstack_profile_mapping_is_file(mapping) || !onstack_profile_maps_is_now(maps, mapping->start, &real)) return 0;
  if (!gdb_jit_recall(mapping, &vaddr)) {
    if (!onstack_elf_module_find_object(mapping, "__jit_debug_descriptor", &vaddr)) vaddr = 0;
    gdb_jit_remember(mapping, vaddr);
  }
  return vaddr == 0 ? 0 : vaddr - onstack_profile_mapping_vaddr(mapping, mapping->start) + real;
}
