/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of the profile layer. An arena hands out pieces that live until the whole arena is released and that never
 * move: a writer may read them while the sink adds more. Not locked; each arena has one owner.
 */
#ifndef ONSTACK_PROFILE_STORE_ARENA_H
#define ONSTACK_PROFILE_STORE_ARENA_H

#include "platform/defs.h"

typedef struct onstack_profile_chunk onstack_profile_chunk;

/* All zero: empty, ready to use. */
typedef struct onstack_profile_arena {
  onstack_profile_chunk *newest;
  size_t used; /* of the newest chunk, bytes */
} onstack_profile_arena;

/* Returns `bytes` bytes aligned to 8, not cleared; NULL when memory is out (the arena is as before). */
ONSTACK_INTERNAL void *onstack_profile_arena_take(onstack_profile_arena *arena, size_t bytes);

/* Copies `length` bytes and adds a NUL. */
ONSTACK_INTERNAL char *onstack_profile_arena_text(onstack_profile_arena *arena, const char *text, size_t length);

/* Frees everything; the arena is empty and can be used again. */
ONSTACK_INTERNAL void onstack_profile_arena_release(onstack_profile_arena *arena);

/*
 * Makes room for `needed` items in a growing array. Returns the array, moved perhaps, and sets *capacity; NULL when
 * memory is out or the size does not fit (then the old array is untouched and still the caller's).
 */
ONSTACK_INTERNAL void *onstack_profile_grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

#endif
