/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which bytes are sampled: distances from one sample to the next, drawn so that each byte has the same chance, and what a
 * sampled allocation stands for. Arithmetic of our own: libm is no dependency, and it may set errno.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_DRAW_H
#define ONSTACK_SAMPLER_SOURCE_DRAW_H

#include "platform/defs.h"

/* What one sampled allocation stands for. */
typedef struct onstack_draw_weight {
  uint32_t objects; /* at least 1 */
  uint64_t bytes;
} onstack_draw_weight;

/* Spreads the bits of a number over all bits of the result, which is never 0: a seed, or a hash. */
ONSTACK_INTERNAL uint64_t onstack_draw_mix(uint64_t from);

/* Bytes before the one that is sampled next, 0 and more; exponentially distributed around `interval`. */
ONSTACK_INTERNAL uint64_t onstack_draw_distance(uint64_t *random, uint32_t interval);

/*
 * An allocation of `size` bytes is sampled with the chance p = 1 - exp(-size / interval); so it stands for 1 / p objects and
 * size / p bytes. Both are rounded up or down by chance, so that sums are right. With an interval of 1: for itself.
 */
ONSTACK_INTERNAL onstack_draw_weight onstack_draw_weight_of(uint64_t *random, size_t size, uint32_t interval);

#endif
