/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Walks a stack that was kept (handler/tick/kept.h) when its rules are there. The consumer only. */
#ifndef ONSTACK_DRAIN_AGAIN_H
#define ONSTACK_DRAIN_AGAIN_H

#include "drain/module_statistics.h"
#include "handler/tick/slot.h"

/* Derives the rules of the module that holds an address; false: nothing to be done there. */
typedef bool (*onstack_derive)(uint64_t address);

/* Puts what is found into *stack, where that is more; its frames are in *kept then. */
ONSTACK_INTERNAL void onstack_again(const onstack_slot *slot, onstack_kept *kept, onstack_derive derive,
                                    onstack_walked *stack);

/* Back into the pool, without its pages: such stacks come in the first moments, and sessions last for days. */
ONSTACK_INTERNAL void onstack_again_release(onstack_kept *kept);

#endif
