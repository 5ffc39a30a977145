/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "host.h"

#include "_cgo_export.h"
#include "bench.h"
#include "burn.h"

static void burn_in_go(int (*over)(void *data), void *data) { goBurn((uintptr_t)over, data); }

void host_burn_in_go(void) { bench_burn_hook = burn_in_go; }

int host_is_over(uintptr_t over, void *data) { return ((int (*)(void *))over)(data); }

void host_burn(uint32_t depth, uintptr_t over, void *data) { burn_until(depth, (burn_done)over, data); }
