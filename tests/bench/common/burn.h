/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code to be interrupted: arithmetic in a small loop under a stack of known depth. */
#ifndef ONSTACK_BENCH_BURN_H
#define ONSTACK_BENCH_BURN_H

#include <stdint.h>

/* Asked every 20 us or so; non-zero ends the burning. */
typedef int (*burn_done)(void *data);

/* Burns CPU time under `depth` frames of recursion (at least 1) until `done` says so. */
void burn_until(uint32_t depth, burn_done done, void *data);

/* Burns at least this much CPU time of the calling thread. */
void burn_cpu_ns(uint64_t ns);

#endif
