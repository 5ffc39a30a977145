/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Walks a stack that was kept (sampler/ring/kept.h) when its rules are there. A slot's consumer, or the preload's keeper. */
#ifndef ONSTACK_SAMPLER_DRAIN_AGAIN_H
#define ONSTACK_SAMPLER_DRAIN_AGAIN_H

#include "sampler/unwind/module_statistics.h"
#include "sampler/session/slot.h"

/* Where the rules of walks that ended PENDING come from; false: nothing to be done there. */
typedef struct onstack_derive {
  bool (*describe)(uint64_t address); /* one address, if it can be had alone */
  bool (*derive)(uint64_t address);   /* all of the module that holds it */
} onstack_derive;

/* Puts what is found into *stack, where that is more; its frames are in *kept then. */
ONSTACK_INTERNAL void onstack_again(const onstack_slot *slot, onstack_kept *kept, const onstack_derive *from,
                                    onstack_walked *stack);

/* Back into its pool. Without its pages, as such stacks come in the first moments, and sessions last for days; but for the
   first of the pool, which is taken first: to give pages back stops the threads of a process for a moment. */
ONSTACK_INTERNAL void onstack_again_release(const onstack_kept *pool, onstack_kept *kept);

#endif
