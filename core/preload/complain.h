/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The one line on stderr that says why there is no profile. Nothing is ever said when all is well. */
#ifndef ONSTACK_PRELOAD_COMPLAIN_H
#define ONSTACK_PRELOAD_COMPLAIN_H

#include "platform/defs.h"

/*
 * Writes "onstack: " and the text and a line end in one piece, to the stderr that onstack_host_stderr_remember has met.
 * Context: ordinary threads.
 */
ONSTACK_INTERNAL __attribute__((format(printf, 1, 2))) void onstack_complain(const char *format, ...);

/* A text, as it is; false: stderr is closed, or nobody has read it for a second. Context: as above. */
ONSTACK_INTERNAL bool onstack_say(const char *text, size_t length);

#endif
