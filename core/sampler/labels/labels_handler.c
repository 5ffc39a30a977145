/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/labels/labels.h"

#include "platform/defs.h"
#include "platform/context.h"
#include "platform/sys.h"
#include "sampler/unwind/memory.h"

#define LABEL_BUCKET 16u
#define LABEL_WINDOW 64u /* entries that are searched: four buckets, as in the thread table */

#define LABEL_OUT_OF_USE UINT32_MAX /* no thread has that id */

static uint32_t label_tids[ONSTACK_LABEL_THREADS]; /* 0: free */
static onstack_label_entry label_entries[ONSTACK_LABEL_THREADS];
static uint32_t label_threads; /* entries in use: programs without labels pay one load a sample */

static ONSTACK_HANDLER uint32_t label_home(uint32_t tid) {
  return tid / LABEL_BUCKET % (ONSTACK_LABEL_THREADS / LABEL_BUCKET) * LABEL_BUCKET;
}

ONSTACK_HANDLER onstack_label_entry *onstack_label_entry_find(uint32_t tid) {
  uint32_t home = label_home(tid);
  if (onstack_load_relaxed(&label_threads) == 0) return NULL;
  for (uint32_t i = 0; i < LABEL_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_LABEL_THREADS;
    if (onstack_observe(&label_tids[index]) == tid) return &label_entries[index];
  }
  return NULL;
}

onstack_label_entry *onstack_label_entry_claim(uint32_t tid) {
  uint32_t home = label_home(tid);
  for (uint32_t i = 0; i < LABEL_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_LABEL_THREADS;
    uint32_t expected = 0;
    if (onstack_load_relaxed(&label_tids[index]) != 0 || !onstack_cas(&label_tids[index], &expected, tid)) continue;
    onstack_add_relaxed(&label_threads, 1u);
    return &label_entries[index];
  }
  return NULL;
}

static void label_entry_empty(onstack_label_entry *entry) {
  for (uint32_t place = 0; place < ONSTACK_COUNT_OF(entry->sets); place++)
    onstack_publish(&entry->sets[place], (const onstack_labels *)0);
}

void onstack_label_entry_release(onstack_label_entry *entry) {
  label_entry_empty(entry);
  onstack_publish(&label_tids[entry - label_entries], 0u);
  onstack_sub_relaxed(&label_threads, 1u);
}

/* Sets are left where they are: nothing may be freed here. */
void onstack_label_entries_after_fork(bool free) {
  if (label_threads == 0) return;
  label_threads = 0;
  for (uint32_t i = 0; i < ONSTACK_LABEL_THREADS; i++) {
    if (label_tids[i] == 0) continue;
    if (free) label_entry_empty(&label_entries[i]);
    label_tids[i] = free ? 0 : LABEL_OUT_OF_USE;
  }
}

/* Bytes of the pair that begins at `at`, both NULs included. */
static ONSTACK_HANDLER uint32_t label_pair(const onstack_labels *set, uint32_t at) {
  uint32_t bytes = 0;
  for (uint32_t nuls = 0; nuls < 2 && at + bytes < set->bytes; bytes++) nuls += set->text[at + bytes] == 0;
  return bytes;
}

static ONSTACK_HANDLER void label_copy(const char *from, char *out, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) ((volatile char *)out)[i] = from[i]; /* volatile: no call of memcpy */
}

ONSTACK_HANDLER uint32_t onstack_label_set_copy(const onstack_labels *set, char *out, uint32_t bytes) {
  uint32_t used = 0, cut = set->cut ? ONSTACK_LABELS_CUT : 0;
  for (uint32_t at = 0, pair; at < set->bytes; at += pair) {
    pair = used == 0 && set->bytes <= bytes ? set->bytes : label_pair(set, at); /* most sets fit as a whole */
    if (pair > bytes - used) {
      cut = ONSTACK_LABELS_CUT;
      continue;
    }
    label_copy(set->text + at, out + used, pair);
    used += pair;
  }
  return used | cut;
}

ONSTACK_HANDLER uint32_t onstack_labels_copy(uint32_t tid, char *out, uint32_t bytes) {
  const onstack_label_entry *entry = onstack_label_entry_find(tid);
  uint32_t used = 0, cut = 0;
  for (uint32_t place = 0; entry && place < ONSTACK_COUNT_OF(entry->sets); place++) {
    const onstack_labels *set = onstack_observe(&entry->sets[place]); /* pairs with the publish in thread_labels.c */
    const uint32_t result = set ? onstack_label_set_copy(set, out + used, bytes - used) : 0;
    used += result & ~ONSTACK_LABELS_CUT;
    cut |= result & ONSTACK_LABELS_CUT;
  }
  return used | cut;
}

#define GO_LABELS_COUNT 64u /* looked at; a goroutine has a handful */

/* runtime/pprof.labelMap since Go 1.24: a slice of {key, value} (internal/runtime/pprof/label). */
typedef struct go_slice {
  uint64_t data, length, capacity;
} go_slice;

typedef struct go_text {
  uint64_t data, length;
} go_text;

typedef struct go_label {
  go_text key, value;
} go_label;

static ONSTACK_HANDLER bool go_fetch(uint64_t address, void *out, uint64_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)out, bytes}, remote = {address, bytes};
  return onstack_address_plausible(address) && onstack_sys_process_vm_readv(&local, 1, &remote, 1) == (long)bytes;
}

ONSTACK_HANDLER uint64_t onstack_go_current(const onstack_go_runtime *go) {
  const onstack_go_layout *layout = &go->layout;
  uint64_t g, m, goroutine;
  if (!layout->known || !go_fetch(onstack_thread_pointer() + layout->tls_g, &g, 8)) return 0;
  if (!go_fetch(g + layout->g_m, &m, 8) || !go_fetch(m + layout->m_curg, &goroutine, 8)) return 0;
  return goroutine;
}

static ONSTACK_HANDLER bool go_text_fits(const go_text *text, uint32_t room) {
  return text->length < room && (text->length == 0 || onstack_address_plausible(text->data));
}

/* A NUL inside would end the string for our readers. */
static ONSTACK_HANDLER bool go_bytes_have_nul(const uint8_t *bytes, uint64_t length) {
  for (uint64_t i = 0; i < length; i++)
    if (bytes[i] == 0) return true;
  return false;
}

/* Returns the bytes taken, 0: it does not fit or cannot be read. */
static ONSTACK_HANDLER uint32_t go_label_copy(const go_label *label, uint8_t *out, uint32_t room) {
  const go_text *key = &label->key, *value = &label->value;
  if (key->length == 0 || !go_text_fits(key, room) || !go_text_fits(value, room)) return 0;
  uint64_t bytes = key->length + value->length;
  if (bytes + 2 > room) return 0;
  uint8_t *second = out + key->length + 1;
  struct onstack_vector local[2] = {{(uint64_t)(uintptr_t)out, key->length}, {(uint64_t)(uintptr_t)second, value->length}};
  struct onstack_vector remote[2] = {{key->data, key->length}, {value->data, value->length}};
  uint32_t parts = value->length > 0 ? 2 : 1;
  if (onstack_sys_process_vm_readv(local, parts, remote, parts) != (long)bytes) return 0;
  if (go_bytes_have_nul(out, key->length) || go_bytes_have_nul(second, value->length)) return 0;
  second[-1] = second[value->length] = 0;
  return (uint32_t)bytes + 2;
}

ONSTACK_HANDLER uint32_t onstack_go_labels_copy_at(const onstack_go_runtime *go, uint32_t g_labels, uint8_t *out,
                                                   uint32_t bytes) {
  uint64_t goroutine, set;
  go_slice list;
  uint32_t used = 0, cut = 0;
  if ((goroutine = onstack_go_current(go)) == 0) return 0;
  if (!go_fetch(goroutine + g_labels, &set, 8) || set == 0 || !go_fetch(set, &list, sizeof(list))) return 0;
  for (uint64_t i = 0; i < list.length; i++) {
    go_label label;
    uint32_t took = 0;
    if (i == GO_LABELS_COUNT) return used | ONSTACK_GO_LABELS_CUT;
    if (go_fetch(list.data + i * sizeof(label), &label, sizeof(label)))
      took = go_label_copy(&label, out + used, bytes - used);
    used += took;
    if (took == 0) cut = ONSTACK_GO_LABELS_CUT;
  }
  return used | cut;
}

ONSTACK_HANDLER uint32_t onstack_go_labels_copy(const onstack_go_runtime *go, uint8_t *out, uint32_t bytes) {
  uint32_t g_labels = onstack_load_relaxed(&go->layout.g_labels);
  return g_labels == 0 ? 0 : onstack_go_labels_copy_at(go, g_labels, out, bytes);
}

ONSTACK_INTERNAL_DEFINE onstack_span_place onstack_span_of_threads;

#define SPAN_TRACE_ID 16u
#define SPAN_ID 8u
#define SPAN_VALID 24u
#define SPAN_RECORD 28u /* up to attributes of its own, which are left alone */

/* glibc (csu/libc-tls.c, dl-dtv.h): a count before the first entry, pairs. musl (src/internal/pthread_impl.h): the count is
   entry 0. */
static const onstack_span_layout span_layouts[ONSTACK_SPAN_LAYOUTS] = {
    {ONSTACK_ARCH_DTV_GLIBC, -16, 16},
    {ONSTACK_ARCH_DTV_MUSL, 0, 8},
};

ONSTACK_HANDLER uint64_t onstack_span_pointer(onstack_span_place place) {
  const uint64_t offset = place & (((uint64_t)1 << ONSTACK_SPAN_OFFSET_BITS) - 1);
  const uint64_t module = place >> ONSTACK_SPAN_OFFSET_BITS & (((uint64_t)1 << ONSTACK_SPAN_MODULE_BITS) - 1);
  const onstack_span_layout *layout = &span_layouts[(place >> (ONSTACK_SPAN_OFFSET_BITS + ONSTACK_SPAN_MODULE_BITS)) - 1];
  uint64_t address = onstack_arch_thread_pointer() + (uint64_t)(int64_t)layout->dtv, words[2];
  if (onstack_memory_copy_many(&address, 1, words) != 1) return 0;
  const uint64_t addresses[] = {words[0] + (uint64_t)(int64_t)layout->count, words[0] + module * layout->entry};
  if (onstack_memory_copy_many(addresses, 2, words) != 2 || module > words[0]) return 0;
  /* The loader makes some blocks only when they are used first, and marks them by all ones until then. */
  return words[1] == 0 || words[1] == UINT64_MAX ? 0 : words[1] + offset;
}

static ONSTACK_HANDLER bool span_read(uint64_t pointer, uint8_t *record) {
  uint64_t address;
  if (onstack_memory_copy_many(&pointer, 1, &address) != 1 || address == 0) return false;
  struct onstack_vector local = {(uint64_t)(uintptr_t)record, SPAN_RECORD}, remote = {address, SPAN_RECORD};
  if (onstack_sys_process_vm_readv(&local, 1, &remote, 1) != SPAN_RECORD || record[SPAN_VALID] != 1) return false;
  uint8_t trace = 0, span = 0;
  for (uint32_t i = 0; i < SPAN_TRACE_ID; i++) trace |= record[i];
  for (uint32_t i = 0; i < SPAN_ID; i++) span |= record[SPAN_TRACE_ID + i];
  return trace != 0 && span != 0;
}

static ONSTACK_HANDLER char *span_put_text(char *out, const char *text) {
  do *(volatile char *)out++ = *text; /* volatile: no call of memcpy */
  while (*text++);
  return out;
}

static ONSTACK_HANDLER char *span_put_id(char *out, const uint8_t *id, uint32_t bytes) {
  for (uint32_t i = 0; i < 2 * bytes; i++) {
    const uint8_t digit = i % 2 == 0 ? id[i / 2] >> 4 : id[i / 2] & 15;
    *out++ = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
  }
  *out++ = 0;
  return out;
}

ONSTACK_HANDLER_APART uint32_t onstack_span_copy(char *out) {
  const onstack_span_place place = onstack_load_relaxed(&onstack_span_of_threads); /* all that it says is in the word */
  uint8_t record[SPAN_RECORD];
  if (place == 0) return 0;
  const uint64_t pointer = onstack_span_pointer(place);
  if (pointer == 0 || !span_read(pointer, record)) return 0;
  out = span_put_id(span_put_text(out, "trace_id"), record, SPAN_TRACE_ID);
  span_put_id(span_put_text(out, "span_id"), record + SPAN_TRACE_ID, SPAN_ID);
  return ONSTACK_SPAN_BYTES;
}
