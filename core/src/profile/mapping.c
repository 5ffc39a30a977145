/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What can be asked of one mapping. */
#include "profile/maps.h"

#include <string.h>

bool onstack_profile_mapping_is_file(const onstack_profile_mapping *mapping) {
  return mapping->path[0] == '/' && mapping->path[1] != '/';
}

const char *onstack_profile_mapping_base_name(const onstack_profile_mapping *mapping) {
  const char *slash = strrchr(mapping->path, '/');
  return slash == NULL ? mapping->path : slash + 1;
}

uint64_t onstack_profile_mapping_vaddr(const onstack_profile_mapping *mapping, uint64_t address) {
  return address - mapping->start + mapping->offset + mapping->vaddr_difference;
}
