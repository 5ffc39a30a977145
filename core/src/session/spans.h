/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SESSION_SPANS_H
#define ONSTACK_SESSION_SPANS_H

#include "base/defs.h"

/* Where spans are wanted and objects have come or gone: looks for who publishes them again. Housekeeping. */
ONSTACK_INTERNAL void onstack_spans_look(void);

#endif
