/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the runtime keeps what a walk needs at a change of stacks: read out of the runtime's own instructions, whose
 * shape has been the same since Go 1.20 while the offsets in them moved. Code of another shape gives no layout, and
 * walks end there (ONSTACK_TRUNCATED_STACK_SWITCH). One file for each processor. Ordinary threads only.
 */
#ifndef ONSTACK_SAMPLER_MODULES_GO_RUNTIME_H
#define ONSTACK_SAMPLER_MODULES_GO_RUNTIME_H

#include "platform/defs.h"
#include "sampler/unwind/code_map.h"

/* True for the functions in which a goroutine's stack grows (ONSTACK_GO_GROWS). */
ONSTACK_INTERNAL bool onstack_go_layout_grows(const char *name);

/* Fills go->layout and the `switch_at` of go->specials from their loaded code. */
ONSTACK_INTERNAL void onstack_go_layout_read(onstack_go_runtime *go);

/* Reader of Go's function table (.gopclntab), of the formats that Go 1.20 and later write. Treats it as hostile. */

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

/*
 * Finds Go runtimes among the loaded objects and, in each, the functions that switch stacks (sampler/unwind/code_map.h).
 * Everything is read from the object's section headers and its loaded .gopclntab, which survive stripping and PIE.
 * Ordinary threads only.
 */

/* Looks at objects loaded since the last call. Under the map lock. */
ONSTACK_INTERNAL void onstack_go_runtime_refresh(void);

/* True if a Go runtime is in the process, as of the last refresh. Any thread. */
ONSTACK_INTERNAL bool onstack_go_runtime_is_present(void);

/* True if the program itself is Go's, and not just a library in it. Any thread. */
ONSTACK_INTERNAL bool onstack_go_runtime_is_program(void);

#endif
