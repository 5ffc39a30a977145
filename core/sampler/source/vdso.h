/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_SOURCE_VDSO_H
#define ONSTACK_SAMPLER_SOURCE_VDSO_H

#include "sampler/session/slot.h"

/* clock_gettime in the vDSO (vdso(7)), or NULL: then the handler uses the system call. Start only. */
ONSTACK_INTERNAL onstack_vdso_clock_gettime onstack_vdso_find(void);

#endif
