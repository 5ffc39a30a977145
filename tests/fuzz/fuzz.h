/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the fuzz targets share. A target is one fuzz_<name>.c with LLVMFuzzerTestOneInput; libFuzzer drives it
 * (`make fuzz`), or replay.c does with the kept inputs and any compiler (`make test`).
 *
 * A finding is a sanitizer's report, a hang, or a broken promise: fuzz_check says what and aborts.
 */
#ifndef ONSTACK_TESTS_FUZZ_H
#define ONSTACK_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)                                                                                               \
  do {                                                                                                                      \
    if (condition) break;                                                                                                   \
    fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                                                 \
    abort();                                                                                                                \
  } while (0)

/* An input that is taken apart from its beginning; behind its end are zeros. */
typedef struct fuzz_input {
  const uint8_t *at;
  size_t left;
} fuzz_input;

static inline uint64_t fuzz_take(fuzz_input *input, uint32_t bytes) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < bytes && input->left > 0; i++, input->left--) value |= (uint64_t)*input->at++ << (8 * i);
  return value;
}

/* A copy in a heap block of exactly its size, so that a sanitizer sees the first byte outside; of NULL with anything in it.
   Never NULL. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  if (size && data) memcpy(copy, data, size);
  return copy;
}

#endif
