/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/string_table.h"

#include "profile/store/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
