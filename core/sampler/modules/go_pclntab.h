/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reader of Go's function table (.gopclntab), of the formats that Go 1.20 and later write. Treats it as hostile. */
#ifndef ONSTACK_SAMPLER_MODULES_GO_PCLNTAB_H
#define ONSTACK_SAMPLER_MODULES_GO_PCLNTAB_H

#include "platform/defs.h"

typedef struct onstack_go_pclntab {
  const uint8_t *base;
  size_t size;
  uint64_t text; /* what function offsets are relative to; 0 until known */
  uint64_t function_count;
  uint64_t names; /* offsets in the table */
  uint64_t functions;
  uint64_t pc_values;
  uint32_t quantum; /* of PC deltas */
} onstack_go_pclntab;

/* Reads the header. False: not a format that we know. `text` stays 0 where the header does not tell (Go 1.26 leaves
   it unused; runtime/symtab.go). */
ONSTACK_INTERNAL bool onstack_go_pclntab_open(onstack_go_pclntab *table, const void *base, size_t size);

/* Calls `visit` for each function in ascending order with its bounds. Needs `text`. */
ONSTACK_INTERNAL void onstack_go_pclntab_each(const onstack_go_pclntab *table,
                                              void (*visit)(void *data, const char *name, uint64_t low, uint64_t high),
                                              void *data);

#endif
