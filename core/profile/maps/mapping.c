/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What can be asked of one mapping, and of an address. */
#include "profile/maps/maps.h"

#include <string.h>

bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping) {
  return mapping->path[0] == '/' && mapping->path[1] != '/';
}

bool onstack_profile_mapping_is_image(const onstack_profile_mapping *mapping) {
  return mapping->build_id.length > 0 || mapping->stamp.inode != 0 || mapping->vaddr_difference != 0 ||
         (mapping->deleted && strncmp(mapping->path, "/memfd:", 7) != 0);
}

const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping) {
  const char *slash = strrchr(mapping->path, '/');
  return !slash ? mapping->path : slash + 1;
}

uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address) {
  return address - mapping->start + mapping->offset + mapping->vaddr_difference;
}

uint64_t onstack_profile_mapping_real(const onstack_profile_mapping *mapping, uint64_t address) {
  return address - mapping->start + mapping->real;
}

static bool mapping_alias_covers(const onstack_profile_mapping *alias, uint64_t real) {
  return real >= alias->real && real - alias->real < alias->limit - alias->start;
}

bool onstack_profile_maps_was_replaced(const onstack_profile_maps *maps, uint64_t real) {
  for (size_t i = 0; i < maps->alias_count; i++) {
    if (mapping_alias_covers(&maps->items[maps->alias_first + i], real)) return true;
  }
  return false;
}

uint64_t onstack_profile_maps_place(const onstack_profile_maps *maps, uint64_t real) {
  for (size_t i = 0; i < maps->alias_count; i++) {
    const onstack_profile_mapping *alias = &maps->items[maps->alias_first + i];
    if (alias->latest && mapping_alias_covers(alias, real)) return alias->start + (real - alias->real);
  }
  const onstack_profile_mapping *plain = maps->full ? onstack_profile_maps_find(maps, real) : NULL;
  return plain && plain->retired ? ONSTACK_MAPS_UNKNOWN : real;
}

bool onstack_profile_maps_is_now(const onstack_profile_maps *maps, uint64_t address, uint64_t *real) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(maps, address);
  *real = address;
  if (address == ONSTACK_MAPS_UNKNOWN) return false;
  if (!mapping || mapping->start == mapping->real) {
    return !mapping || !mapping->retired || onstack_profile_maps_place(maps, address) == address;
  }
  *real = onstack_profile_mapping_real(mapping, address);
  return !mapping->retired;
}
