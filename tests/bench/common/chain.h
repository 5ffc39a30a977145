/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thousands of functions, each with a call site of its own, in fixed chains: function n calls n + 1, and the last of
 * each `depth` calls a leaf. So whoever knows one function of a stack knows its callers. Compiled twice: "framed" with
 * frame pointers, "plain" as -O2 without them, where RBP holds data.
 */
#ifndef ONSTACK_BENCH_CHAIN_H
#define ONSTACK_BENCH_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#define CHAIN_FUNCTIONS 8192u
#define CHAIN_ROOT CHAIN_FUNCTIONS /* as a caller: chain_run */

typedef uint64_t (*chain_leaf)(uint64_t seed);

typedef struct chain_set {
  /* Cuts the functions into chains of `depth` that end in `leaf`; NULL: a leaf of the set's own, which works in libc
     with a callback. */
  void (*cut)(uint32_t depth, chain_leaf leaf);
  /* Runs the chain that begins with function `first`, a multiple of the depth. */
  uint64_t (*run)(uint32_t first, uint64_t seed);
  /* Return address inside function n (CHAIN_ROOT: inside run), as its callee found it; 0: never called from there. */
  const uint64_t *sites;
  /* The return address of `run`, as it found it. */
  const uint64_t *run_site;
  /* The function that an address lies in: 0 .. CHAIN_FUNCTIONS - 1, or one of the following. */
  uint32_t (*find)(uint64_t address);
} chain_set;

#define CHAIN_IN_RUN CHAIN_FUNCTIONS
#define CHAIN_IN_LEAF (CHAIN_FUNCTIONS + 1)    /* the set's own */
#define CHAIN_IN_COMPARE (CHAIN_FUNCTIONS + 2) /* the callback: called by libc, called by the leaf */
#define CHAIN_ELSEWHERE (CHAIN_FUNCTIONS + 3)

extern const chain_set chain_framed, chain_plain;

#endif
