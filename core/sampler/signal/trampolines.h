/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which trampoline to install next, and what is kept for it (owners.h). Ordinary threads, under the lock of all
   copies; `action` may be another copy's. */
#ifndef ONSTACK_SAMPLER_SIGNAL_TRAMPOLINES_H
#define ONSTACK_SAMPLER_SIGNAL_TRAMPOLINES_H

#include "sampler/signal/copy.h"

/* What lies below once `newest` has come on top of all that was. */
ONSTACK_INTERNAL onstack_below onstack_below_add(const onstack_below *below, onstack_previous *newest);

/* The trampoline that stands for `below`: the one that had it already, else one that no owner holds, or that was installed
   longest ago; from now on a signal that comes in by it is passed on to that. */
ONSTACK_INTERNAL uint32_t onstack_trampoline_choose(onstack_action *action, const onstack_below *below);

/* Another one that stands for the same, to be installed in its place: of who comes at that very moment the one that was
   there is the previous action, by which it leaves. */
ONSTACK_INTERNAL uint32_t onstack_trampoline_another(onstack_action *action, uint32_t trampoline);

/* It is installed now, and whoever comes next finds it. */
ONSTACK_INTERNAL void onstack_trampoline_use(onstack_action *action, uint32_t trampoline);

/* Its owner has left, and so have those who came after. */
ONSTACK_INTERNAL void onstack_trampoline_put_back(onstack_action *action, uint32_t trampoline);

/* From now on a signal that comes in by it is passed on to `below`. */
ONSTACK_INTERNAL void onstack_trampoline_publish(onstack_action *action, uint32_t trampoline, const onstack_below *below);

/* The host has put SIG_DFL or SIG_IGN there: whoever was known has lost the signal, whichever of ours its
   previous action was. */
ONSTACK_INTERNAL void onstack_trampolines_forget(onstack_action *action, const onstack_below *unowned);

static inline uint64_t onstack_trampoline_address(const onstack_copy *copy, uint32_t trampoline) {
  return (uint64_t)(uintptr_t)copy->trampoline + (uint64_t)trampoline * ONSTACK_TRAMPOLINE_BYTES;
}

#endif
