/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program headers of a loaded object. */
#ifndef ONSTACK_PLATFORM_OBJECT_HEADERS_H
#define ONSTACK_PLATFORM_OBJECT_HEADERS_H

#include "platform/defs.h"

#ifdef __linux__
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
#endif

#endif
