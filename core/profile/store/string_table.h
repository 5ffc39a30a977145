/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Strings kept once and known by number; number 0 is "", as pprof's string table wants it. Bytes that are not UTF-8
 * become U+FFFD when they enter: thread names are cut at 15 bytes, in the middle of a character perhaps, and a protobuf
 * reader may refuse a whole profile for one such string.
 */
#ifndef ONSTACK_PROFILE_STORE_STRING_TABLE_H
#define ONSTACK_PROFILE_STORE_STRING_TABLE_H

#include "platform/defs.h"
#include "profile/store/arena.h"
#include "profile/store/hash_index.h"

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
