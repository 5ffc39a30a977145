/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The application's side of thread labels: makes a new set, puts it in the old one's place, and frees that. */
#include "base/sys.h"
#include "control/fork.h"
#include "control/pin.h"
#include "control/tick/slots.h"
#include "handler/labels/labels.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A thread's labels end with it. The value of the key says only that there are some. */
static pthread_key_t labels_key;
static pthread_once_t labels_once = PTHREAD_ONCE_INIT;
static int labels_ready; /* 0, or -errno */

static void labels_put(onstack_label_entry *entry, onstack_label_set *set) {
  onstack_label_set *old = (onstack_label_set *)(uintptr_t)entry->set;
  if (set)
    onstack_publish(&entry->set, (const onstack_label_set *)set); /* pairs with the observe in onstack_labels_copy */
  else
    onstack_labels_release(entry);
  free(old);
}

static void labels_forget(void *unused) {
  onstack_label_entry *entry = onstack_labels_find((uint32_t)onstack_sys_gettid());
  (void)unused;
  if (entry) labels_put(entry, NULL);
}

static void labels_prepare(void) {
  labels_ready = -pthread_key_create(&labels_key, labels_forget);
  if (labels_ready < 0) return;
  onstack_pin_self(); /* the key's destructor is in this object */
  /* For the labels in children. The lock is not ours only in a signal handler, where this must not be called. */
  if (!onstack_control_lock()) return;
  labels_ready = onstack_fork_prepare();
  onstack_control_unlock();
}

static int labels_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool labels_key_is_good(const char *key) {
  if (!key || !labels_letter(key[0]) || strcmp(key, "thread") == 0 || strcmp(key, "thread_id") == 0) return false;
  for (const char *c = key; *c; c++)
    if (!labels_letter(*c) && !(*c >= '0' && *c <= '9')) return false;
  return true;
}

static size_t labels_append(char *text, size_t used, const char *string) {
  size_t bytes = strlen(string) + 1;
  memcpy(text + used, string, bytes);
  return used + bytes;
}

/* The old pairs but the one of `key`, to `text`, which has room for all of them. Returns the bytes. */
static size_t labels_without(const onstack_label_set *old, const char *key, char *text) {
  size_t used = 0;
  for (size_t at = 0; old && at < old->bytes;) {
    const char *name = old->text + at, *value = name + strlen(name) + 1;
    if (strcmp(name, key) != 0) used = labels_append(text, labels_append(text, used, name), value);
    at = (size_t)(value + strlen(value) + 1 - old->text);
  }
  return used;
}

/* NULL: no memory, or (*too_long) more than a sample may carry. */
static onstack_label_set *labels_make(const onstack_label_set *old, const char *key, const char *value, bool *too_long) {
  size_t added = value ? strnlen(key, ONSTACK_MAX_LABEL_BYTES) + strnlen(value, ONSTACK_MAX_LABEL_BYTES) + 2 : 0;
  *too_long = added > ONSTACK_MAX_LABEL_BYTES;
  onstack_label_set *set = *too_long ? NULL : malloc(sizeof(*set) + (old ? old->bytes : 0) + added);
  if (!set) return NULL;
  size_t used = labels_without(old, key, set->text);
  *too_long = used + added > ONSTACK_MAX_LABEL_BYTES;
  if (*too_long) {
    free(set);
    return NULL;
  }
  if (value) used = labels_append(set->text, labels_append(set->text, used, key), value);
  set->bytes = (uint32_t)used;
  return set;
}

static int labels_replace(onstack_label_entry *entry, const char *key, const char *value) {
  bool too_long;
  onstack_label_set *set = labels_make(entry->set, key, value, &too_long);
  if (!set) return too_long ? ONSTACK_E_OPTIONS : -ENOMEM;
  if (set->bytes == 0) {
    free(set);
    set = NULL;
  }
  labels_put(entry, set);
  return 0;
}

int onstack_thread_label_set(const char *key, const char *value) {
  if (!labels_key_is_good(key)) return ONSTACK_E_OPTIONS;
  onstack_fork_repair();
  pthread_once(&labels_once, labels_prepare);
  if (labels_ready < 0) return labels_ready;
  uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_label_entry *entry = onstack_labels_find(tid);
  if (!entry && !value) return 0;
  if (entry) return labels_replace(entry, key, value);
  if (pthread_setspecific(labels_key, &labels_key) != 0 || !(entry = onstack_labels_claim(tid))) return -ENOMEM;
  int result = labels_replace(entry, key, value);
  if (result < 0) onstack_labels_release(entry);
  return result;
}

void onstack_thread_labels_clear(void) { labels_forget(NULL); }
