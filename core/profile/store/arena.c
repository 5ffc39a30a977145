/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/arena.h"

#include <stdlib.h>
#include <string.h>

#define ONSTACK_ARENA_CHUNK ((size_t)64 * 1024)

struct onstack_profile_chunk {
  onstack_profile_chunk *older;
  size_t capacity;
  uint64_t bytes[]; /* for the alignment */
};

static onstack_profile_chunk *arena_add_chunk(onstack_profile_arena *arena, size_t bytes) {
  size_t capacity = bytes > ONSTACK_ARENA_CHUNK ? bytes : ONSTACK_ARENA_CHUNK;
  if (capacity > SIZE_MAX - sizeof(onstack_profile_chunk)) return NULL;
  onstack_profile_chunk *chunk = malloc(sizeof(*chunk) + capacity);
  if (!chunk) return NULL;
  chunk->older = arena->newest;
  chunk->capacity = capacity;
  arena->newest = chunk;
  arena->used = 0;
  return chunk;
}

void *onstack_profile_arena_take(onstack_profile_arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX - 7) return NULL;
  bytes = (bytes + 7) & ~(size_t)7;
  onstack_profile_chunk *chunk = arena->newest;
  if (!chunk || chunk->capacity - arena->used < bytes) chunk = arena_add_chunk(arena, bytes);
  if (!chunk) return NULL;
  void *piece = (char *)chunk->bytes + arena->used;
  arena->used += bytes;
  return piece;
}

char *onstack_profile_arena_text(onstack_profile_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *copy = onstack_profile_arena_take(arena, length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

void onstack_profile_arena_release(onstack_profile_arena *arena) {
  for (onstack_profile_chunk *chunk = arena->newest; chunk;) {
    onstack_profile_chunk *older = chunk->older;
    free(chunk);
    chunk = older;
  }
  arena->newest = NULL;
  arena->used = 0;
}

void *onstack_profile_grow(void *items, size_t *capacity, size_t needed, size_t item_bytes) {
  if (needed <= *capacity && items) return items;
  size_t wanted = *capacity < 16 ? 16 : *capacity;
  while (wanted < needed) {
    if (wanted > SIZE_MAX / 2) return NULL;
    wanted *= 2;
  }
  if (wanted > SIZE_MAX / item_bytes) return NULL;
  void *grown = realloc(items, wanted * item_bytes);
  if (grown) *capacity = wanted;
  return grown;
}
