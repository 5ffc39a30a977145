/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/generated/gdb_jit_places.h"

#include "profile/elf/elf_module.h"

#include <pthread.h>
#include <string.h>

#define GDB_JIT_FILES 512u /* that are remembered; others are read each time */

typedef struct gdb_jit_place {
  onstack_elf_build_id build_id;
  uint64_t vaddr; /* 0: it has none */
} gdb_jit_place;

/* Whoever finds it locked reads the file instead: in the child of a fork it may stay locked. */
static pthread_mutex_t gdb_jit_lock = PTHREAD_MUTEX_INITIALIZER;
static gdb_jit_place gdb_jit_places[GDB_JIT_FILES];
static uint32_t gdb_jit_place_count;

static bool gdb_jit_recall(const onstack_elf_build_id *id, uint64_t *vaddr) {
  bool found = false;
  if (id->length == 0 || pthread_mutex_trylock(&gdb_jit_lock) != 0) return false;
  for (uint32_t i = 0; i < gdb_jit_place_count && !found; i++) {
    const gdb_jit_place *place = &gdb_jit_places[i];
    found = place->build_id.length == id->length && memcmp(place->build_id.bytes, id->bytes, id->length) == 0;
    if (found) *vaddr = place->vaddr;
  }
  pthread_mutex_unlock(&gdb_jit_lock);
  return found;
}

static void gdb_jit_remember(const onstack_elf_build_id *id, uint64_t vaddr) {
  if (id->length == 0 || pthread_mutex_trylock(&gdb_jit_lock) != 0) return;
  if (gdb_jit_place_count < GDB_JIT_FILES)
    gdb_jit_places[gdb_jit_place_count++] = (gdb_jit_place){.build_id = *id, .vaddr = vaddr};
  pthread_mutex_unlock(&gdb_jit_lock);
}

uint64_t onstack_gdb_jit_descriptor(const onstack_profile_maps *maps, const onstack_profile_mapping *mapping) {
  uint64_t real, vaddr = 0;
  if (!onstack_profile_mapping_is_file(mapping) || !onstack_profile_maps_is_now(maps, mapping->start, &real)) return 0;
  if (!gdb_jit_recall(&mapping->build_id, &vaddr)) {
    if (!onstack_elf_module_find_object(mapping, "__jit_debug_descriptor", &vaddr)) vaddr = 0;
    gdb_jit_remember(&mapping->build_id, vaddr);
  }
  return vaddr == 0 ? 0 : vaddr - onstack_profile_mapping_vaddr(mapping, mapping->start) + real;
}
