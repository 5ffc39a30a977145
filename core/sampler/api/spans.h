/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_API_SPANS_H
#define ONSTACK_SAMPLER_API_SPANS_H

#include "platform/defs.h"

/* Where spans are wanted and objects have come or gone: looks for who publishes them again. Housekeeping. */
ONSTACK_INTERNAL void onstack_spans_look(void);

#endif
