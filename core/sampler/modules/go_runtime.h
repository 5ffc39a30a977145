/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds Go runtimes among the loaded objects and, in each, the functions that switch stacks (sampler/unwind/code_map.h).
 * Everything is read from the object's section headers and its loaded .gopclntab, which survive stripping and PIE.
 * Ordinary threads only.
 */
#ifndef ONSTACK_SAMPLER_MODULES_GO_RUNTIME_H
#define ONSTACK_SAMPLER_MODULES_GO_RUNTIME_H

#include "platform/defs.h"

/* Looks at objects loaded since the last call. Under the map lock. */
ONSTACK_INTERNAL void onstack_go_runtime_refresh(void);

/* True if a Go runtime is in the process, as of the last refresh. Any thread. */
ONSTACK_INTERNAL bool onstack_go_runtime_is_present(void);

/* True if the program itself is Go's, and not just a library in it. Any thread. */
ONSTACK_INTERNAL bool onstack_go_runtime_is_program(void);

#endif
