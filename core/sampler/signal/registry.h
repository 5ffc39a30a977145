/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds other copies of the library in this process; what they are to each other stands in sampler/signal/copy.h. Ordinary
   threads, under the control lock of this copy; another copy may do the same at the same time. */
#ifndef ONSTACK_SAMPLER_SIGNAL_REGISTRY_H
#define ONSTACK_SAMPLER_SIGNAL_REGISTRY_H

#include "sampler/signal/copy.h"

/*
 * One lock for all copies that know each other: that of the one at the lowest address. What is read of the action and of
 * another copy, and what is written because of it, belongs inside. No holder waits for anything else meanwhile. Without
 * `wait`: NULL if another copy has it.
 */
ONSTACK_INTERNAL onstack_copy *onstack_copies_lock(bool wait);
ONSTACK_INTERNAL void onstack_copies_unlock(onstack_copy *locked);
/* The copies have become more, and another lock is theirs: unlock, and begin anew. */
ONSTACK_INTERNAL bool onstack_copies_outgrew(const onstack_copy *locked);
/* In the child of a fork: whoever had our lock is not here. */
ONSTACK_INTERNAL void onstack_copies_after_fork(void);

/*
 * Whose handler is that? 0 and NULL: no copy's. 0 and a copy, which knows us from now on as we know it, and so do all
 * copies that either knew. ONSTACK_E_VERSION: a copy that cannot be dealt with. -ENOMEM: one too many.
 */
ONSTACK_INTERNAL int onstack_copies_meet(uint64_t handler, onstack_copy **copy);

/* A known copy that has sessions on the signal, or NULL. */
ONSTACK_INTERNAL const onstack_copy *onstack_copies_running(int signal);

#endif
