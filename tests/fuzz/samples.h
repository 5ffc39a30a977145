/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A profile out of a fuzz input: options, strings, samples of every kind (unsound ones too), and a symbolizer whose
 * results depend on the input alone. What was accepted is added up, for comparison with what is written.
 *
 * Numbers have one byte that says how many bytes follow, so that small inputs reach large values; sums are compared
 * modulo 2^64, which is how the core adds.
 */
#ifndef ONSTACK_TESTS_FUZZ_SAMPLES_H
#define ONSTACK_TESTS_FUZZ_SAMPLES_H

#include "fuzz.h"

#include "onstack/profile.h"

#define SAMPLES_STRINGS 8u
#define SAMPLES_MOST 48u

#define SAMPLES_KINDS 5u /* ONSTACK_KIND_*, and 0, which is none */

typedef struct samples_sum {
  uint64_t samples, weight, value;
} samples_sum;

typedef struct samples_world {
  onstack_profile *profile;
  onstack_write_options write;
  char strings[SAMPLES_STRINGS][32]; /* NUL-terminated */
  uint64_t seed;
  samples_sum sums[SAMPLES_KINDS];  /* accepted, by kind */
  uint32_t refused;                 /* as unsound */
  bool with_names, with_ids, fails; /* fails: the symbolizer says so when it is asked */
  bool asked;                       /* it was */
  bool adds_wrong;                  /* and it adds to addresses that nobody asked for */
} samples_world;

/* Everything but the writing. False: the options were refused, and there is nothing to free. */
bool samples_make(samples_world *world, fuzz_input *input);
void samples_free(samples_world *world);

#endif
