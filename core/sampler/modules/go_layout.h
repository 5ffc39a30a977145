/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the runtime keeps what a walk needs at a change of stacks: read out of the runtime's own instructions, whose
 * shape has been the same since Go 1.20 while the offsets in them moved. Code of another shape gives no layout, and
 * walks end there (ONSTACK_TRUNCATED_STACK_SWITCH). One file for each processor. Ordinary threads only.
 */
#ifndef ONSTACK_SAMPLER_MODULES_GO_LAYOUT_H
#define ONSTACK_SAMPLER_MODULES_GO_LAYOUT_H

#include "sampler/unwind/code_map.h"

/* True for the functions in which a goroutine's stack grows (ONSTACK_GO_GROWS). */
ONSTACK_INTERNAL bool onstack_go_layout_grows(const char *name);

/* Fills go->layout and the `switch_at` of go->specials from their loaded code. */
ONSTACK_INTERNAL void onstack_go_layout_read(onstack_go_runtime *go);

#endif
