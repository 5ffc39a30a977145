/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What frames of interpreters were called, with the words by which their functions are known again. A frame was copied with a
 * fingerprint of them (interpreter.h): it has a name if the function that lies there now has the same, or
 * the one that lay there when it was named last. From then on frames are copied without: they have a name as long as the words
 * are what they were, and where no function lies there any more that of the one that was seen there some milliseconds before.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_KNOWN_H
#define ONSTACK_SAMPLER_INTERPRETER_KNOWN_H

#include "platform/defs.h"
#include "sampler/interpreter/interpreter.h"
#include "onstack/interpreter.h"

#define ONSTACK_KNOWN_SCRATCH ((size_t)65536)

/* Reads for functions that the handler calls too. */
ONSTACK_INTERNAL_DATA const onstack_frame_memory onstack_known_memory;

/* Of one interpreter. Both are called under a lock. */
typedef struct onstack_known_reader {
  /* False: there is no function. */
  bool (*identify)(const onstack_interpreted_frame *frame, uint64_t identity[ONSTACK_IDENTITY]);
  /* Names the frame of an identified function. `scratch`: ONSTACK_KNOWN_SCRATCH bytes. False: it cannot be read. */
  bool (*read)(const onstack_interpreted_frame *frame, const uint64_t identity[ONSTACK_IDENTITY], uint8_t *scratch,
               onstack_frame_text *text);
} onstack_known_reader;

/* 0; -ESRCH: it cannot be told what the frame was; -ENOMEM. Ordinary threads. */
ONSTACK_INTERNAL int onstack_known_describe(const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                                            onstack_frame_text *text);

/* In the child of a fork: the lock is nobody's. */
ONSTACK_INTERNAL void onstack_known_after_fork(void);

static inline __attribute__((unused)) uint64_t onstack_known_word(const uint8_t *bytes, uint32_t offset) {
  uint64_t word = 0;
  for (uint32_t i = 8; i-- > 0;) word = word << 8 | bytes[offset + i]; /* both architectures are little-endian */
  return word;
}

#endif
