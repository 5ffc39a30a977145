/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What frames of an interpreter were called, with the words by which their functions are known again. Where those have
 * changed another function lies there, and the frame may have been of either: it has no name. Where no function lies there
 * any more it was the one that is remembered. Under the provider's lock.
 */
#ifndef ONSTACK_DRAIN_INTERPRETER_KNOWN_H
#define ONSTACK_DRAIN_INTERPRETER_KNOWN_H

#include "base/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_KNOWN_FRAMES 1024u /* a power of two; a newer one takes the place of an older one */

typedef struct onstack_known_frame {
  uint64_t function; /* 0: nothing is known here */
  uint64_t identity[4];
  uint32_t position;
  onstack_frame_text text;
} onstack_known_frame;

typedef struct onstack_known_reader {
  /* The words that tell a function from another at its address. False: there is no function. */
  bool (*identify)(const onstack_interpreted_frame *frame, uint64_t identity[4]);
  /* Names the frame of an identified function. False: it cannot be read. */
  bool (*read)(const onstack_interpreted_frame *frame, const uint64_t identity[4], onstack_frame_text *text);
} onstack_known_reader;

/* 0, or -ESRCH: it cannot be told what the frame was. */
ONSTACK_INTERNAL int onstack_known_describe(onstack_known_frame known[ONSTACK_KNOWN_FRAMES],
                                            const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                                            onstack_frame_text *text);

/* Memory of the process by the kernel's copy; how much of it could be read. Ordinary threads. */
ONSTACK_INTERNAL size_t onstack_known_fetch(uint64_t address, void *to, size_t bytes);

static inline __attribute__((unused)) uint64_t onstack_known_word(const uint8_t *bytes, uint32_t offset) {
  uint64_t word = 0;
  for (uint32_t i = 8; i-- > 0;) word = word << 8 | bytes[offset + i]; /* both architectures are little-endian */
  return word;
}

#endif
