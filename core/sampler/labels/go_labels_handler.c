/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/labels/go_labels.h"

#include "platform/address.h"
#include "platform/sys.h"
#include "sampler/unwind/stack_bounds.h"

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
