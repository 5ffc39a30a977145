/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Between the Go program and the benchmark in C (../common). */
#ifndef ONSTACK_BENCH_GO_HOST_H
#define ONSTACK_BENCH_GO_HOST_H

#include <stdint.h>

/* Sends the benchmark's burning to goBurn. */
void host_burn_in_go(void);
/* Is the time over? `over` and `data` are what goBurn was given. */
int host_is_over(uintptr_t over, void *data);
/* Burns in C under that many frames until the time is over. */
void host_burn(uint32_t depth, uintptr_t over, void *data);

#endif
