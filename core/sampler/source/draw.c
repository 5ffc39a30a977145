/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/draw.h"

#include <string.h>

#define DRAW_LN2 0.6931471805599453
#define DRAW_TERMS 12     /* of each series: the error is below 1e-12 */
#define DRAW_CERTAIN 36.0 /* exp(-36) is less than what a double tells from 0 beside 1 */

uint64_t onstack_draw_mix(uint64_t from) {
  /* The finalizer of MurmurHash3: neighbouring inputs give unlike states. */
  from ^= from >> 33;
  from *= 0xff51afd7ed558ccdu;
  from ^= from >> 33;
  from *= 0xc4ceb9fe1a85ec53u;
  from ^= from >> 33;
  return from != 0 ? from : 1;
}

/* xorshift64* (Vigna 2016). */
static uint64_t draw_next(uint64_t *random) {
  uint64_t state = *random;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  *random = state;
  return state * 0x2545f4914f6cdd1du;
}

/* In (0, 1]. */
static double draw_unit(uint64_t *random) { return ((double)(draw_next(random) >> 11) + 1.0) / 9007199254740992.0; }

/* -ln(unit) for 0 < unit <= 1: exponent and mantissa, ln((1 + t) / (1 - t)) = 2 (t + t^3/3 + ...). */
static double draw_minus_ln(double unit) {
  uint64_t bits;
  double mantissa, sum = 0;
  memcpy(&bits, &unit, sizeof(bits));
  int exponent = (int)(bits >> 52) - 1023;
  bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
  memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    exponent++;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  double power = t;
  for (int i = 0; i < DRAW_TERMS; i++) {
    sum += power / (2 * i + 1);
    power *= t * t;
  }
  return -(2 * sum + exponent * DRAW_LN2);
}

/* 1 - exp(-x) for x > 0: by its series up to 1/2, and above by 1 - exp(-2 y) = a (2 - a) with a = 1 - exp(-y). */
static double draw_chance(double x) {
  int halved = 0;
  double sum = 0, term = 1;
  if (x >= DRAW_CERTAIN) return 1;
  for (; x > 0.5; halved++) x /= 2;
  for (int i = 1; i <= DRAW_TERMS; i++) {
    term *= -x / i;
    sum -= term;
  }
  for (; halved > 0; halved--) sum = sum * (2 - sum);
  return sum;
}

uint64_t onstack_draw_distance(uint64_t *random, uint32_t interval) {
  return (uint64_t)(draw_minus_ln(draw_unit(random)) * (double)interval);
}

static uint64_t draw_round(uint64_t *random, double number) {
  const uint64_t whole = (uint64_t)number;
  return whole + (draw_unit(random) <= number - (double)whole);
}

onstack_draw_weight onstack_draw_weight_of(uint64_t *random, size_t size, uint32_t interval) {
  const double bytes = size > 0 ? (double)size : 1;
  const double chance = interval > 1 ? draw_chance(bytes / (double)interval) : 1;
  if (chance >= 1) return (onstack_draw_weight){1, size};
  const uint64_t objects = draw_round(random, 1 / chance);
  return (onstack_draw_weight){objects < UINT32_MAX ? (uint32_t)objects : UINT32_MAX,
                               draw_round(random, (double)size / chance)};
}
