/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Included before each file (-include): the handler's functions forbid the sanitizers, which is what we want here. */
#include "platform/defs.h"
#undef ONSTACK_HANDLER
#define ONSTACK_HANDLER
