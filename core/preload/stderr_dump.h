/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ONSTACK_DUMP_SIGNAL: where every thread is, on the host's stderr. */
#ifndef ONSTACK_PRELOAD_STDERR_DUMP_H
#define ONSTACK_PRELOAD_STDERR_DUMP_H

#include "platform/defs.h"

/* Writes a dump, or one line that says why there is none. Context: the keeper. */
ONSTACK_INTERNAL void onstack_preload_dump(void);

#endif
