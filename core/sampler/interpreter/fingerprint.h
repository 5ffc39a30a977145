/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fingerprint of a function is copied with its frames, in the upper bits of their flags: memory is used again, and
 * milliseconds later another function may lie there. Of functions that have been named, nothing is copied: they are compared
 * with what they were then (sampler/interpreter/known.h), so that all this costs is the first sample of each.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_FINGERPRINT_H
#define ONSTACK_SAMPLER_INTERPRETER_FINGERPRINT_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "onstack/onstack.h"

/* The words that tell a function from another at its address, by more than addresses: allocators give the memory of what has
   just been freed. */
#define ONSTACK_IDENTITY 5

#define ONSTACK_FINGERPRINT_SHIFT 8      /* behind ONSTACK_INTERPRETED_* */
#define ONSTACK_FINGERPRINT_NAMED 0u     /* it had been named when the frame was copied */
#define ONSTACK_FINGERPRINT_UNPROVEN 1u  /* it could not be read, or there were too many new ones */
#define ONSTACK_FINGERPRINT_FIRST 2u     /* others are hashes of its identity */
#define ONSTACK_FINGERPRINTS 64u         /* that a sample takes at most; each costs some two copies by the kernel */
#define ONSTACK_FINGERPRINT_PLACES 4096u /* a power of two */

/* Addresses of functions that have been named, each in its place; 0: none (publish / observe). */
ONSTACK_INTERNAL_DATA uint64_t onstack_fingerprint_named[ONSTACK_FINGERPRINT_PLACES];

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint32_t onstack_fingerprint_place(uint64_t function) {
  return (uint32_t)((function >> 4) * 0x9e3779b97f4a7c15u >> 40) & (ONSTACK_FINGERPRINT_PLACES - 1);
}

/* Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_fingerprint_is_named(uint64_t function) {
  return onstack_observe(&onstack_fingerprint_named[onstack_fingerprint_place(function)]) == function;
}

/* From ONSTACK_FINGERPRINT_FIRST on. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint32_t
onstack_fingerprint_of(const uint64_t identity[ONSTACK_IDENTITY]) {
  uint64_t mixed = 0;
  for (uint32_t i = 0; i < ONSTACK_IDENTITY; i++) {
    mixed = (mixed ^ ((const volatile uint64_t *)identity)[i]) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
  }
  const uint32_t fingerprint = (uint32_t)(mixed >> 40);
  return fingerprint < ONSTACK_FINGERPRINT_FIRST ? fingerprint + ONSTACK_FINGERPRINT_FIRST : fingerprint;
}

#endif
