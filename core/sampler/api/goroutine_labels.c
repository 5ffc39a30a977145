/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds out where goroutines keep their labels, with the host's help, and turns their reading on. */
#include "platform/uncancelled.h"
#include "sampler/session/code_map_update.h"
#include "sampler/labels/labels.h"
#include "onstack/onstack.h"

#define GO_LABELS_G 1024u /* bytes of g that are searched; Go 1.26: 448 */

/* The runtime whose code holds `text`; found by the first session, or here. */
static onstack_go_runtime *go_labels_runtime(uint64_t address) {
  ONSTACK_UNCANCELLED;
  if (!onstack_code_find_go(address)) onstack_code_map_refresh(NULL);
  return (onstack_go_runtime *)(uintptr_t)onstack_code_find_go(address);
}

int onstack_go_labels_find(uint64_t text, uint64_t labels) {
  onstack_go_runtime *go = go_labels_runtime(text);
  uint64_t goroutine;
  int found = ONSTACK_E_UNSUPPORTED;
  if (!go || labels == 0 || (goroutine = onstack_go_current(go)) == 0) return ONSTACK_E_UNSUPPORTED;
  for (uint32_t offset = 0; offset < GO_LABELS_G; offset += 8) {
    uint64_t pair[2];
    if (!onstack_memory_copy_pair(goroutine + offset, pair)) break; /* the end of a page, at worst */
    if (pair[0] != labels) continue;
    if (found >= 0) return ONSTACK_E_UNSUPPORTED; /* not the only one */
    found = (int)offset;
  }
  return found;
}

int onstack_go_labels_read(uint64_t text, uint32_t offset, char *out, uint32_t bytes) {
  onstack_go_runtime *go = go_labels_runtime(text);
  if (!go) return ONSTACK_E_UNSUPPORTED;
  uint32_t result = onstack_go_labels_copy_at(go, offset, (uint8_t *)out, bytes);
  return (int)(result & ~ONSTACK_GO_LABELS_CUT);
}

int onstack_go_labels_use(uint64_t text, uint32_t offset) {
  onstack_go_runtime *go = go_labels_runtime(text);
  if (!go || offset >= GO_LABELS_G) return ONSTACK_E_UNSUPPORTED;
  onstack_store_relaxed(&go->layout.g_labels, offset);
  return 0;
}
