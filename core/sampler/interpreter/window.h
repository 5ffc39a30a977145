/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frames of an interpreter lie in pieces of memory that grow upwards, callers below the called. One copy by the kernel takes
 * many neighbours at once: it costs hardly more than a copy of one.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_WINDOW_H
#define ONSTACK_SAMPLER_INTERPRETER_WINDOW_H

#include "platform/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_WINDOW_FRAME 112u  /* bytes of a frame at most */
#define ONSTACK_WINDOW_BYTES 7168u /* of Python some 50 frames */

typedef struct onstack_window {
  const onstack_frame_memory *memory;
  uint64_t piece;     /* where the newest piece begins; 0: not known */
  uint64_t low, high; /* what of it is in `bytes` */
  uint8_t *frame;     /* room for a frame that lies elsewhere: ONSTACK_WINDOW_FRAME */
  uint8_t *bytes;     /* ONSTACK_WINDOW_BYTES */
} onstack_window;

/* A word in bytes that were copied; `offset` is a multiple of its size. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_window_word(const uint8_t *bytes,
                                                                                                  uint32_t offset) {
  return *(const volatile uint64_t *)(const void *)(bytes + offset);
}

/* Memory at an aligned, plausible address. Signal-safe. */
ONSTACK_INTERNAL bool onstack_window_read(const onstack_frame_memory *memory, uint64_t address, void *to, uint32_t bytes);

/* `size` bytes of a frame, valid until the next call; NULL: they cannot be read. Signal-safe. */
ONSTACK_INTERNAL const uint8_t *onstack_window_frame(onstack_window *window, uint64_t address, uint32_t size);

#endif
