/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/store.h"

#include <errno.h>
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

uint32_t onstack_profile_hash_find(const onstack_profile_hash_index *index, uint32_t hash, onstack_profile_hash_equal equal,
                                   const void *owner, const void *key) {
  if (index->capacity == 0) return ONSTACK_PROFILE_HASH_NONE;
  size_t mask = index->capacity - 1;
  for (size_t at = hash & mask; index->slots[at].item != 0; at = (at + 1) & mask) {
    const onstack_profile_hash_slot *slot = &index->slots[at];
    if (slot->hash == hash && equal(owner, slot->item - 1, key)) return slot->item - 1;
  }
  return ONSTACK_PROFILE_HASH_NONE;
}

static void hash_place(onstack_profile_hash_slot *slots, size_t mask, onstack_profile_hash_slot slot) {
  size_t at = slot.hash & mask;
  while (slots[at].item != 0) at = (at + 1) & mask;
  slots[at] = slot;
}

int onstack_profile_hash_reserve(onstack_profile_hash_index *index) {
  if (index->count < index->capacity / 4 * 3) return 0; /* a quarter stays free: every search ends */
  size_t capacity = index->capacity == 0 ? 64 : index->capacity * 2;
  onstack_profile_hash_slot *slots = calloc(capacity, sizeof(*slots));
  if (!slots) return -ENOMEM;
  for (size_t i = 0; i < index->capacity; i++) {
    if (index->slots[i].item != 0) hash_place(slots, capacity - 1, index->slots[i]);
  }
  free(index->slots);
  index->slots = slots;
  index->capacity = capacity;
  return 0;
}

void onstack_profile_hash_insert(onstack_profile_hash_index *index, uint32_t hash, uint32_t item) {
  hash_place(index->slots, index->capacity - 1, (onstack_profile_hash_slot){.hash = hash, .item = item + 1});
  index->count++;
}

void onstack_profile_hash_release(onstack_profile_hash_index *index) {
  free(index->slots);
  *index = (onstack_profile_hash_index){0};
}

/* Multiplication spreads upwards only, so the high half is folded back after each step: addresses differ in
   low bits, and the index looks at low bits. */
uint64_t onstack_profile_hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ (hash >> 32);
}

uint64_t onstack_profile_hash_bytes(uint64_t hash, const void *bytes, size_t length) {
  const char *next = bytes;
  size_t left = length;
  for (; left >= 8; left -= 8, next += 8) {
    uint64_t word;
    memcpy(&word, next, 8);
    hash = onstack_profile_hash_word(hash, word);
  }
  uint64_t rest = 0;
  memcpy(&rest, next, left);
  hash = onstack_profile_hash_word(hash, rest);
  return onstack_profile_hash_word(hash, length);
}

uint32_t onstack_profile_hash_fold(uint64_t hash) { return (uint32_t)(onstack_profile_hash_word(hash, 0) >> 16); }

size_t onstack_profile_utf8_length(const char *text, size_t left) {
  const unsigned char *bytes = (const unsigned char *)text;
  unsigned char lead = bytes[0];
  size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length > left) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
  }
  if (length < 3) return length;
  /* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
  if (lead == 0xE0 && bytes[1] < 0xA0) return 0;
  if (lead == 0xED && bytes[1] > 0x9F) return 0;
  if (lead == 0xF0 && bytes[1] < 0x90) return 0;
  if (lead == 0xF4 && bytes[1] > 0x8F) return 0;
  return length;
}

/* A character of three bytes. */
static uint32_t utf8_three(const unsigned char *bytes) {
  return (uint32_t)(bytes[0] & 0x0F) << 12 | (uint32_t)(bytes[1] & 0x3F) << 6 | (uint32_t)(bytes[2] & 0x3F);
}

bool onstack_profile_utf8_is_obeyed(const char *character, size_t length) {
  const unsigned char *bytes = (const unsigned char *)character;
  if (length == 1) return bytes[0] < 0x20 || bytes[0] == 0x7F;
  if (length == 2) return (bytes[0] == 0xC2 && bytes[1] < 0xA0) || (bytes[0] == 0xD8 && bytes[1] == 0x9C); /* U+061C */
  if (length != 3) return false;
  const uint32_t code = utf8_three(bytes);
  return code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

static const char strings_replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

static bool strings_all_utf8(const char *text, size_t length) {
  for (size_t at = 0, step; at < length; at += step) {
    step = onstack_profile_utf8_length(text + at, length - at);
    if (step == 0) return false;
  }
  return true;
}

/* `out` has room for three times the length. Returns the new length. */
static size_t strings_repair(const char *text, size_t length, char *out) {
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    size_t step = onstack_profile_utf8_length(text + at, length - at);
    const char *from = step == 0 ? strings_replacement : text + at;
    size_t count = step == 0 ? sizeof(strings_replacement) - 1 : step;
    memcpy(out + used, from, count);
    used += count;
    at += step == 0 ? 1 : step;
  }
  return used;
}

static bool strings_equal(const void *owner, uint32_t item, const void *key) {
  const onstack_profile_string *have = &((const onstack_profile_strings *)owner)->items[item];
  const onstack_profile_string *want = key;
  return have->length == want->length && memcmp(have->text, want->text, want->length) == 0;
}

int onstack_profile_strings_add_bytes(onstack_profile_strings *strings, const void *bytes, size_t length, uint32_t *number) {
  const char *text = bytes;
  onstack_profile_string key = {.text = text, .length = length};
  uint32_t hash = onstack_profile_hash_fold(onstack_profile_hash_bytes(0, text, length));
  *number = onstack_profile_hash_find(&strings->index, hash, strings_equal, strings, &key);
  if (*number != ONSTACK_PROFILE_HASH_NONE) return 0;
  if (strings->count >= UINT32_MAX - 1 || onstack_profile_hash_reserve(&strings->index) != 0) return -ENOMEM;
  void *items = onstack_profile_grow(strings->items, &strings->capacity, strings->count + 1, sizeof(key));
  if (!items) return -ENOMEM;
  strings->items = items;
  key.text = onstack_profile_arena_text(&strings->arena, text, length);
  if (!key.text) return -ENOMEM;
  *number = (uint32_t)strings->count;
  strings->items[strings->count++] = key;
  onstack_profile_hash_insert(&strings->index, hash, *number);
  return 0;
}

int onstack_profile_strings_add(onstack_profile_strings *strings, const char *text, size_t length, uint32_t *number) {
  if (strings_all_utf8(text, length)) return onstack_profile_strings_add_bytes(strings, text, length, number);
  char *clean = length > SIZE_MAX / 3 ? NULL : malloc(length * 3);
  if (!clean) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(strings, clean, strings_repair(text, length, clean), number);
  free(clean);
  return error;
}

int onstack_profile_strings_add_text(onstack_profile_strings *strings, const char *text, uint32_t *number) {
  if (!text) text = "";
  return onstack_profile_strings_add(strings, text, strlen(text), number);
}

int onstack_profile_strings_init(onstack_profile_strings *strings) {
  *strings = (onstack_profile_strings){0};
  uint32_t number;
  int error = onstack_profile_strings_add(strings, "", 0, &number);
  if (error != 0) onstack_profile_strings_release(strings);
  return error;
}

void onstack_profile_strings_release(onstack_profile_strings *strings) {
  onstack_profile_arena_release(&strings->arena);
  onstack_profile_hash_release(&strings->index);
  free(strings->items);
  *strings = (onstack_profile_strings){0};
}
