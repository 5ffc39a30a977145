/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_RING_ROOM_H
#define ONSTACK_SAMPLER_RING_ROOM_H

#include "platform/defs.h"

#include <ucontext.h>

/*
 * Whether the stack that the handler runs on has so many bytes left. On an alternate stack the room is known: the kernel's
 * frame holds the stack's bounds. On a thread without one we run on the interrupted stack, whose end nobody tells us; the
 * kernel has just written its own frame of several KiB there. Signal-safe.
 */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_has_room(const ucontext_t *context,
                                                                                           uint32_t bytes) {
  const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  const uint64_t low = (uint64_t)(uintptr_t)context->uc_stack.ss_sp;
  const uint64_t size = context->uc_stack.ss_size;
  if (here - low >= size) return true; /* SS_DISABLE leaves size 0 */
  return here - low >= bytes;
}

#endif
