/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Keeps sampler/unwind/code_map.h and the stack bounds in the thread records true. Ordinary threads only. */
#ifndef ONSTACK_SAMPLER_SESSION_CODE_MAP_UPDATE_H
#define ONSTACK_SAMPLER_SESSION_CODE_MAP_UPDATE_H

#include "sampler/session/slot.h"

/*
 * Reads the process's mappings once: rewrites the executable ranges if they have changed, and, where `slot` is not
 * NULL, gives stack bounds to the records of that slot that ask for them and checks the bounds that were given before.
 * Takes the map lock (after the control lock, if both are held). Returns 0 or -errno.
 */
ONSTACK_INTERNAL int onstack_code_map_refresh(onstack_slot *slot);

/* In the child of a fork: the lock is nobody's. */
ONSTACK_INTERNAL void onstack_code_map_after_fork(void);

#endif
