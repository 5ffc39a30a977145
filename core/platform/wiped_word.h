/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a process is told from those that it makes. Its id does not tell: in a PID namespace of its own (clone with
 * CLONE_NEWPID) the child of a process 1 is process 1 again.
 */
#ifndef ONSTACK_PLATFORM_WIPED_WORD_H
#define ONSTACK_PLATFORM_WIPED_WORD_H

#include "platform/defs.h"

#define ONSTACK_WIPE_ON_FORK 18 /* MADV_WIPEONFORK of linux/mman.h, which older libcs do not name */

/*
 * A new word, 0, that the kernel sets to 0 again in every child with a memory of its own, whoever made it and how; a vfork
 * child shares ours. Never given back. NULL: no memory, or the kernel is older than 4.14. Ordinary threads.
 */
ONSTACK_INTERNAL uint32_t *onstack_wiped_word(void);

#endif
