/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The experimental part of the header, where it has nothing to offer: no frames, no names, no labels, no spans. */
#include "onstack/labels.h"
#include "onstack/onstack.h"
#include "onstack/traceback.h"

int onstack_traceback_prepare(void) { return ONSTACK_E_UNSUPPORTED; }

int onstack_traceback_is_stale(void) { return 0; }

void onstack_traceback_interrupted(const void *ucontext, onstack_registers *out) {
  (void)ucontext;
  *out = (onstack_registers){0};
}

int onstack_traceback_caller(uint32_t skip, onstack_registers *out) {
  (void)skip;
  *out = (onstack_registers){0};
  return ONSTACK_E_UNSUPPORTED;
}

uint32_t onstack_traceback_walk(const onstack_registers *from, uint64_t *frames, uint32_t capacity) {
  (void)from, (void)frames, (void)capacity;
  return 0;
}

const char *onstack_traceback_symbol(uint64_t address, uint64_t *entry) {
  (void)address;
  *entry = 0;
  return NULL;
}

int onstack_go_labels_find(uint64_t text, uint64_t labels) {
  (void)text, (void)labels;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_go_labels_read(uint64_t text, uint32_t offset, char *out, uint32_t bytes) {
  (void)text, (void)offset, (void)out, (void)bytes;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_go_labels_use(uint64_t text, uint32_t offset) {
  (void)text, (void)offset;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_thread_spans_use(onstack_switch use) { return use == ONSTACK_OFF ? 0 : ONSTACK_E_UNSUPPORTED; }
