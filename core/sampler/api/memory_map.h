/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the process's memory is by its mappings: bytes that are resident, each in one sum. */
#ifndef ONSTACK_SAMPLER_API_MEMORY_MAP_H
#define ONSTACK_SAMPLER_API_MEMORY_MAP_H

#include "platform/defs.h"

typedef enum onstack_memory_part {
  ONSTACK_MEMORY_CODE,      /* of files, executable; the vDSO */
  ONSTACK_MEMORY_FILES,     /* of files otherwise, and the zeroed data (.bss) behind a library's */
  ONSTACK_MEMORY_SHARED,    /* shared with others, of no file on a disk: memfd, System V, /dev/zero */
  ONSTACK_MEMORY_STACKS,    /* of threads */
  ONSTACK_MEMORY_GENERATED, /* executable, of no file */
  ONSTACK_MEMORY_GO,        /* the heap of Go, or of another runtime: objects and its stacks */
  ONSTACK_MEMORY_REST,      /* heaps, and whatever else is anonymous */
  ONSTACK_MEMORY_PARTS
} onstack_memory_part;

/* `object`: an address in a runtime's heap; 0: Go's is looked for. Ordinary threads. Errors: -errno, when /proc/self/smaps
   cannot be read; -ENOMEM. */
ONSTACK_INTERNAL int onstack_memory_map_read(uint64_t object, uint64_t parts[ONSTACK_MEMORY_PARTS]);

#endif
