/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a thread of the host's works for this library: then what it allocates is in no heap profile of the host's. */
#ifndef ONSTACK_PLATFORM_OURS_H
#define ONSTACK_PLATFORM_OURS_H

#include "platform/defs.h"

/* How many calls that say so the thread is in. Initial-exec: it is read on the way of an allocation, where the loader must not
   be called. A host's function that leaves such a call by longjmp leaves the thread's allocations out from then on. */
#define ONSTACK_OURS_MODEL __attribute__((tls_model("initial-exec")))
ONSTACK_INTERNAL_DATA __thread uint32_t onstack_ours ONSTACK_OURS_MODEL;

#endif
