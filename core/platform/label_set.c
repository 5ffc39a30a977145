/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/label_set.h"

#include "platform/atomics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool label_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool label_key_is_good(const char *key) {
  if (!key || !label_letter(key[0]) || strcmp(key, "thread") == 0 || strcmp(key, "thread_id") == 0) return false;
  for (const char *c = key; *c; c++)
    if (!label_letter(*c) && !(*c >= '0' && *c <= '9') && *c != '.' && *c != '-' && *c != '/') return false;
  return true;
}

static onstack_labels *label_set_take(size_t room) {
  onstack_labels *set = malloc(sizeof(*set) + room);
  if (!set) return NULL;
  set->references = 1;
  set->bytes = 0;
  set->cut = false;
  return set;
}

static void label_append(onstack_labels *set, const char *string) {
  const size_t bytes = strlen(string) + 1;
  memcpy(set->text + set->bytes, string, bytes);
  set->bytes += (uint32_t)bytes;
}

static void label_add(onstack_labels *set, const char *key, const char *value) {
  label_append(set, key);
  label_append(set, value);
}

/* Of the pair at `key`. */
static const char *label_value(const char *key) { return key + strlen(key) + 1; }
static const char *label_next(const char *key) {
  const char *value = label_value(key);
  return value + strlen(value) + 1;
}

static bool label_set_has(const onstack_labels *set, const char *key) {
  for (const char *at = set->text; at < set->text + set->bytes; at = label_next(at))
    if (strcmp(at, key) == 0) return true;
  return false;
}

/* Of the caller's labels from `from` on, is there another with that key? */
static bool label_comes_again(const onstack_label *labels, size_t from, size_t count, const char *key) {
  for (size_t i = from; i < count; i++)
    if (strcmp(labels[i].key, key) == 0) return true;
  return false;
}

/* The bytes that they take; more than ONSTACK_MAX_LABEL_BYTES: refused. No text is looked at for longer than may be. */
static size_t label_measure(const onstack_label *labels, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count && bytes <= ONSTACK_MAX_LABEL_BYTES; i++) {
    if (!label_key_is_good(labels[i].key) || !labels[i].value) return SIZE_MAX;
    bytes += strnlen(labels[i].key, ONSTACK_MAX_LABEL_BYTES) + strnlen(labels[i].value, ONSTACK_MAX_LABEL_BYTES) + 2;
  }
  return bytes;
}

int onstack_labels_new(const onstack_label *labels, size_t count, onstack_labels **out) {
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  const size_t bytes = labels || count == 0 ? label_measure(labels, count) : SIZE_MAX;
  if (bytes > ONSTACK_MAX_LABEL_BYTES) return ONSTACK_E_OPTIONS;
  onstack_labels *set = label_set_take(bytes);
  if (!set) return -ENOMEM;
  for (size_t i = 0; i < count; i++)
    if (!label_comes_again(labels, i + 1, count, labels[i].key)) label_add(set, labels[i].key, labels[i].value);
  *out = set;
  return 0;
}

int onstack_labels_merge(const onstack_labels *inner, const onstack_labels *outer, onstack_labels **out) {
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  if (!inner || !outer) return ONSTACK_E_OPTIONS;
  onstack_labels *set = label_set_take((size_t)inner->bytes + outer->bytes);
  if (!set) return -ENOMEM;
  memcpy(set->text, inner->text, inner->bytes);
  set->bytes = inner->bytes;
  set->cut = inner->cut || outer->cut;
  for (const char *at = outer->text; at < outer->text + outer->bytes; at = label_next(at)) {
    if (label_set_has(inner, at)) continue;
    if (set->bytes + (size_t)(label_next(at) - at) <= ONSTACK_MAX_LABEL_BYTES)
      label_add(set, at, label_value(at));
    else
      set->cut = true;
  }
  *out = set;
  return 0;
}

int onstack_label_set_without(const onstack_labels *outer, const char *key, onstack_labels **out) {
  *out = NULL;
  if (!label_key_is_good(key)) return ONSTACK_E_OPTIONS;
  if (!outer) return 0;
  onstack_labels *set = label_set_take(outer->bytes);
  if (!set) return -ENOMEM;
  for (const char *at = outer->text; at < outer->text + outer->bytes; at = label_next(at))
    if (strcmp(at, key) != 0) label_add(set, at, label_value(at));
  if (set->bytes > 0)
    *out = set;
  else
    free(set);
  return 0;
}

void onstack_labels_retain(const onstack_labels *labels) {
  if (labels) onstack_retain(&((onstack_labels *)(uintptr_t)labels)->references);
}

void onstack_labels_release(const onstack_labels *labels) {
  onstack_labels *set = (onstack_labels *)(uintptr_t)labels;
  if (set && onstack_release_was_last(&set->references)) free(set);
}

const char *onstack_labels_text(const onstack_labels *labels, uint32_t *bytes) {
  *bytes = labels->bytes;
  return labels->text;
}
