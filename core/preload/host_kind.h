/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_PRELOAD_HOST_KIND_H
#define ONSTACK_PRELOAD_HOST_KIND_H

#include "platform/defs.h"

/*
 * Programs that begin with a session at once, as their first ticks would say less or go astray: an interpreter's functions are
 * read while they run; and Go's runtime installs its handler for SIGPROF by the system call, which takes ticks of ours until a
 * session is there. In the constructor, when what the program is linked with is loaded.
 */
ONSTACK_INTERNAL bool onstack_host_needs_session(void);

#endif
