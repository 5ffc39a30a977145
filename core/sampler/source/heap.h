/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Allocations as a source of samples (ONSTACK_CLOCK_HEAP): the public calls for allocators (onstack.h), and what switches
 * them on and off. One session at a time.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_HEAP_H
#define ONSTACK_SAMPLER_SOURCE_HEAP_H

#include "sampler/session/slot.h"

/* From here on allocations are sampled into the running slot. Start only. */
ONSTACK_INTERNAL void onstack_heap_switch_on(onstack_slot *slot, uint32_t interval);
/* No new sample is begun; one that is under way is waited for by whoever waits for the slot's records. Stop only. */
ONSTACK_INTERNAL void onstack_heap_switch_off(void);

#endif
