/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "checker.h"

#include <stdlib.h>

#include "chain.h"

#define TRAMPOLINE_BYTES 16
#define BEYOND_MAIN 4 /* frames above the case's caller: main and libc's start code */

/* Some profilers keep the address before the return address, with which they look the call up. */
static int is_site(uint64_t address, uint64_t site) { return address == site || address + 1 == site; }

/* Frames of the handler itself, for unwinders that begin there and step over the signal frame. */
static size_t skip_handler(const checker_truth *truth, const uint64_t *frames, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (frames[i] + 1 - truth->trampoline < TRAMPOLINE_BYTES) return i + 1;
  return 0;
}

static int by_address(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static int was_interrupted(const checker_truth *truth, uint64_t pc) {
  return !!bsearch(&pc, truth->pcs, truth->pc_count, sizeof pc, by_address);
}

/* The callers of function n up to main. */
static checker_verdict checker_chain(const checker_truth *truth, uint32_t n, const uint64_t *frames, size_t count) {
  size_t at = 0;
  for (; n % truth->depth != 0; n--, at++) {
    if (at == count) return CHECKER_TRUNCATED;
    if (!is_site(frames[at], chain_plain.sites[n - 1])) return CHECKER_WRONG;
  }
  const uint64_t roots[] = {chain_plain.sites[CHAIN_ROOT], *chain_plain.run_site, truth->main_site};
  for (size_t i = 0; i < sizeof roots / sizeof *roots; i++, at++) {
    if (at == count) return CHECKER_TRUNCATED;
    if (!is_site(frames[at], roots[i])) return CHECKER_WRONG;
  }
  return count - at <= BEYOND_MAIN ? CHECKER_EXACT : CHECKER_WRONG;
}

/* The callers of the leaf: the last function of some chain, and so on. */
static checker_verdict checker_leaf(const checker_truth *truth, const uint64_t *frames, size_t count) {
  if (count == 0) return CHECKER_TRUNCATED;
  uint32_t n = chain_plain.find(frames[0]);
  if (n >= CHAIN_FUNCTIONS || (n + 1) % truth->depth != 0 || !is_site(frames[0], chain_plain.sites[n])) return CHECKER_WRONG;
  return checker_chain(truth, n, frames + 1, count - 1);
}

/* In libc, where the leaf is the only one that can have called. */
static checker_verdict checker_libc(const checker_truth *truth, const uint64_t *frames, size_t count) {
  if (count == 0) return CHECKER_TRUNCATED;
  if (chain_plain.find(frames[0]) != CHAIN_IN_LEAF) return CHECKER_WRONG;
  return checker_leaf(truth, frames + 1, count - 1);
}

static checker_verdict checker_compare(const checker_truth *truth, const uint64_t *frames, size_t count) {
  if (count == 0) return CHECKER_TRUNCATED;
  uint32_t caller = chain_plain.find(frames[0]);
  if (caller == CHAIN_IN_LEAF) return checker_leaf(truth, frames + 1, count - 1); /* bsearch was inlined */
  return caller == CHAIN_ELSEWHERE ? checker_libc(truth, frames + 1, count - 1) : CHECKER_WRONG;
}

checker_verdict checker_stack(const checker_truth *truth, const uint64_t *frames, size_t count) {
  size_t skipped = skip_handler(truth, frames, count);
  frames += skipped;
  count -= skipped;
  while (count > 0 && frames[count - 1] <= 1) count--; /* libgcc ends with the caller of nobody */
  if (count == 0) return CHECKER_NO_LEAF;
  uint32_t n = chain_plain.find(frames[0]);
  if (!was_interrupted(truth, frames[0])) return CHECKER_NO_LEAF;
  if (n == CHAIN_IN_LEAF) return checker_leaf(truth, frames + 1, count - 1);
  if (n == CHAIN_IN_COMPARE) return checker_compare(truth, frames + 1, count - 1);
  if (n < CHAIN_FUNCTIONS) return checker_chain(truth, n, frames + 1, count - 1);
  if (n == CHAIN_IN_RUN || frames[0] < truth->libc_low || frames[0] >= truth->libc_high) return CHECKER_OUTSIDE;
  return checker_libc(truth, frames + 1, count - 1);
}
