/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compiled twice, with CHAIN_SET naming the set (Makefile). */
#include "chain.h"

#include <stdlib.h>
#include <string.h>

#define OPAQUE __attribute__((noipa, used))

typedef uint64_t (*function)(uint64_t seed, uint32_t caller);

/* One more than the functions: where `run` called from. */
static uint64_t sites[CHAIN_FUNCTIONS + 1], run_site;
static function next[CHAIN_FUNCTIONS];
static chain_leaf leaf_given;

/* Work before and after the call: interrupted there, the function is the leaf. Several values live across the call
   fill the saved registers, RBP included where it is free; the frames differ in size. */
#define FUNCTION(octal)                                                                                                     \
  static OPAQUE uint64_t chain_##octal(uint64_t seed, uint32_t caller) {                                                    \
    enum { number = 0##octal };                                                                                             \
    volatile uint64_t local[1 + number % 7];                                                                                \
    uint64_t a = seed * (number | 1), b = seed ^ number, c = seed + number, d = ~seed, e = a ^ b;                           \
    sites[caller] = (uint64_t)(uintptr_t)__builtin_return_address(0);                                                       \
    local[number % 3 % (1 + number % 7)] = a + b;                                                                           \
    e += next[number](a ^ c, number);                                                                                       \
    return ((a + e) ^ (b * d)) + (c ^ local[0]) + e;                                                                        \
  }
#define POINTER(octal) chain_##octal,

#define EIGHT(x, p) x(p##0) x(p##1) x(p##2) x(p##3) x(p##4) x(p##5) x(p##6) x(p##7)
#define SIXTY_FOUR(x, p)                                                                                                    \
  EIGHT(x, p##0) EIGHT(x, p##1) EIGHT(x, p##2) EIGHT(x, p##3) EIGHT(x, p##4) EIGHT(x, p##5) EIGHT(x, p##6) EIGHT(x, p##7)
#define P512(x, p)                                                                                                          \
  SIXTY_FOUR(x, p##0)                                                                                                       \
  SIXTY_FOUR(x, p##1)                                                                                                       \
  SIXTY_FOUR(x, p##2) SIXTY_FOUR(x, p##3) SIXTY_FOUR(x, p##4) SIXTY_FOUR(x, p##5) SIXTY_FOUR(x, p##6) SIXTY_FOUR(x, p##7)
#define P4096(x, p)                                                                                                         \
  P512(x, p##0) P512(x, p##1) P512(x, p##2) P512(x, p##3) P512(x, p##4) P512(x, p##5) P512(x, p##6) P512(x, p##7)

P4096(FUNCTION, 0)
P4096(FUNCTION, 1)

/* The compiler's order in the file is the order in memory (-fno-toplevel-reorder), with these at the end. */
static OPAQUE int chain_compare(const void *key, const void *element) {
  uint64_t a = *(const uint64_t *)key, b = *(const uint64_t *)element;
  return (a > b) - (a < b);
}

static OPAQUE uint64_t chain_own_leaf(uint64_t seed, uint32_t caller) {
  uint64_t from[32], to[32], key = seed % 64;
  sites[caller] = (uint64_t)(uintptr_t)__builtin_return_address(0);
  for (uint64_t i = 0; i < 32; i++) from[i] = i * 2 + (seed & 1);
  memmove(to, from, sizeof to - (seed & 8));
  __asm__ volatile("" : : "r"(to) : "memory");
  const uint64_t *found = bsearch(&key, to, 32, sizeof *to, chain_compare);
  return seed + (found ? *found : key) + strlen((const char *)to);
}

static OPAQUE uint64_t chain_given_leaf(uint64_t seed, uint32_t caller) {
  sites[caller] = (uint64_t)(uintptr_t)__builtin_return_address(0);
  return leaf_given(seed) + caller;
}

static const function functions[CHAIN_FUNCTIONS] = {P4096(POINTER, 0) P4096(POINTER, 1)};

static OPAQUE uint64_t chain_run(uint32_t first, uint64_t seed) {
  run_site = (uint64_t)(uintptr_t)__builtin_return_address(0);
  uint64_t value = functions[first](seed, CHAIN_ROOT);
  __asm__ volatile("" : "+r"(value) : : "memory");
  return value;
}

static OPAQUE void chain_end(void) {}

static void chain_cut(uint32_t depth, chain_leaf leaf) {
  leaf_given = leaf;
  for (uint32_t n = 0; n < CHAIN_FUNCTIONS; n++)
    next[n] = (n + 1) % depth && n + 1 < CHAIN_FUNCTIONS ? functions[n + 1] : leaf ? chain_given_leaf : chain_own_leaf;
}

static uint32_t chain_find(uint64_t address) {
  const uint64_t end = (uint64_t)(uintptr_t)chain_end;
  if (address < (uint64_t)(uintptr_t)functions[0] || address >= end) return CHAIN_ELSEWHERE;
  if (address >= (uint64_t)(uintptr_t)chain_run) return CHAIN_IN_RUN;
  if (address >= (uint64_t)(uintptr_t)chain_given_leaf) return CHAIN_ELSEWHERE;
  if (address >= (uint64_t)(uintptr_t)chain_own_leaf) return CHAIN_IN_LEAF;
  if (address >= (uint64_t)(uintptr_t)chain_compare) return CHAIN_IN_COMPARE;
  uint32_t low = 0, high = CHAIN_FUNCTIONS;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if ((uint64_t)(uintptr_t)functions[middle] <= address)
      low = middle;
    else
      high = middle;
  }
  return low;
}

const chain_set CHAIN_SET = {chain_cut, chain_run, sites, &run_site, chain_find};
