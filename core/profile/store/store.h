/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory of the profile layer. An arena hands out pieces that live until the whole arena is released and that never
 * move: a writer may read them while the sink adds more. Not locked; each arena has one owner.
 */
#ifndef ONSTACK_PROFILE_STORE_STORE_H
#define ONSTACK_PROFILE_STORE_STORE_H

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

/*
 * A hash index over items that somebody else keeps in an array: key -> position. It stores positions only, so the
 * array may move. Items are never removed one by one.
 *
 * Insertion has two steps, so that a failed allocation leaves the owner unchanged: reserve (may fail) first, then the
 * owner adds its item, then insert (cannot fail).
 */

#define ONSTACK_PROFILE_HASH_NONE UINT32_MAX

typedef struct onstack_profile_hash_slot {
  uint32_t hash;
  uint32_t item; /* position + 1; 0: free */
} onstack_profile_hash_slot;

/* All zero: empty, ready to use. */
typedef struct onstack_profile_hash_index {
  onstack_profile_hash_slot *slots;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} onstack_profile_hash_index;

/* Whether the owner's item at this position has this key. */
typedef bool (*onstack_profile_hash_equal)(const void *owner, uint32_t item, const void *key);

/* Returns the position, or ONSTACK_PROFILE_HASH_NONE. */
ONSTACK_INTERNAL uint32_t onstack_profile_hash_find(const onstack_profile_hash_index *index, uint32_t hash,
                                                    onstack_profile_hash_equal equal, const void *owner, const void *key);
/* Room for one more. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_hash_reserve(onstack_profile_hash_index *index);
/* Adds a position whose key is not there yet, after a successful reserve. */
ONSTACK_INTERNAL void onstack_profile_hash_insert(onstack_profile_hash_index *index, uint32_t hash, uint32_t item);
ONSTACK_INTERNAL void onstack_profile_hash_release(onstack_profile_hash_index *index);

/* Mixes words into a hash: start from any seed, feed words, fold at the end. */
ONSTACK_INTERNAL uint64_t onstack_profile_hash_word(uint64_t hash, uint64_t word);
ONSTACK_INTERNAL uint64_t onstack_profile_hash_bytes(uint64_t hash, const void *bytes, size_t length);
ONSTACK_INTERNAL uint32_t onstack_profile_hash_fold(uint64_t hash);

/* Characters of text that anybody made: names of files, threads and functions. */

/* Length in bytes of the UTF-8 character at `text`, which has `left` bytes (at least 1); 0: it is none. */
ONSTACK_INTERNAL size_t onstack_profile_utf8_length(const char *text, size_t left);

/* Whether a terminal obeys the character instead of showing it, or some reader takes it for the end of a line: control
   characters, separators, and marks that order the text behind them anew. */
ONSTACK_INTERNAL bool onstack_profile_utf8_is_obeyed(const char *character, size_t length);

/*
 * Strings kept once and known by number; number 0 is "", as pprof's string table wants it. Bytes that are not UTF-8
 * become U+FFFD when they enter: thread names are cut at 15 bytes, in the middle of a character perhaps, and a protobuf
 * reader may refuse a whole profile for one such string.
 */

typedef struct onstack_profile_string {
  const char *text; /* NUL-terminated */
  size_t length;
} onstack_profile_string;

typedef struct onstack_profile_strings {
  onstack_profile_arena arena;
  onstack_profile_hash_index index;
  onstack_profile_string *items;
  size_t count;
  size_t capacity;
} onstack_profile_strings;

/* Errors: -ENOMEM (nothing is left to release). */
ONSTACK_INTERNAL int onstack_profile_strings_init(onstack_profile_strings *strings);
ONSTACK_INTERNAL void onstack_profile_strings_release(onstack_profile_strings *strings);

/* Sets *number. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_strings_add(onstack_profile_strings *strings, const char *text, size_t length,
                                                 uint32_t *number);

/* As they are: of a table of encoded messages, whose number 0 is the one without a field. */
ONSTACK_INTERNAL int onstack_profile_strings_add_bytes(onstack_profile_strings *strings, const void *bytes, size_t length,
                                                       uint32_t *number);

/* The number as text, NULL as "". */
ONSTACK_INTERNAL int onstack_profile_strings_add_text(onstack_profile_strings *strings, const char *text, uint32_t *number);

#endif
