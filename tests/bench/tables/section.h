/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The unwind section of a loaded library, copied as onstack copies it, and its text. */
#ifndef ONSTACK_BENCH_SECTION_H
#define ONSTACK_BENCH_SECTION_H

#include <stddef.h>
#include <stdint.h>

typedef struct section {
  uint8_t *bytes; /* the copy */
  size_t size;
  uint64_t address;             /* where it is loaded */
  uint64_t base;                /* of the object */
  uint64_t text_low, text_high; /* executable part */
} section;

/* Loads the library if it is not there. Returns NULL, or why it cannot be had. */
const char *section_load(const char *library, section *out);

#endif
