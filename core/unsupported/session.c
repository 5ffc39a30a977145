/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sessions where there are none: systems other than Linux, so far. What needs no ticks (options, profiles of samples that
 * come from elsewhere, error texts) works as everywhere; a start is refused and leaves nothing behind, so no session ever
 * exists, and no other function can be given one.
 */
#include "onstack/heap.h"
#include "onstack/labels.h"
#include "onstack/onstack.h"
#include "onstack/profile.h"
#include "onstack/interpreter.h"

const char *onstack_options_fault(const onstack_options *options) {
  (void)options;
  return NULL;
}

int onstack_session_start(const onstack_options *options, onstack_session **out) {
  (void)options;
  if (!out) return ONSTACK_E_OPTIONS;
  *out = NULL;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_session_stop(onstack_session *session) {
  (void)session;
  return ONSTACK_E_OPTIONS;
}

int onstack_session_free(onstack_session *session) { return session ? ONSTACK_E_OPTIONS : 0; }

int onstack_session_poll(onstack_session *session, uint32_t max_samples) {
  (void)session, (void)max_samples;
  return ONSTACK_E_OPTIONS;
}

int onstack_session_stats(const onstack_session *session, onstack_stats *stats) {
  (void)session, (void)stats;
  return ONSTACK_E_OPTIONS;
}

int onstack_session_modules(onstack_session *session, int (*visit)(void *data, const onstack_module_stats *module),
                            void *data) {
  (void)session, (void)visit, (void)data;
  return ONSTACK_E_OPTIONS;
}

int onstack_session_stats_text(onstack_session *session, onstack_writer writer, void *data) {
  (void)session, (void)writer, (void)data;
  return ONSTACK_E_OPTIONS;
}

int onstack_session_memory_text(onstack_session *session, const onstack_runtime_memory *runtime, onstack_writer writer,
                                void *data) {
  (void)session, (void)runtime, (void)writer, (void)data;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_frame_provider_register(const onstack_frame_provider *provider) {
  (void)provider;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_dump(const onstack_write_options *options, onstack_writer writer, void *writer_data) {
  (void)options, (void)writer, (void)writer_data;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_dump_take(onstack_profile *profile) {
  (void)profile;
  return ONSTACK_E_UNSUPPORTED;
}

int onstack_thread_label_set(const char *key, const char *value) {
  (void)key, (void)value;
  return ONSTACK_E_UNSUPPORTED;
}

void onstack_thread_labels_clear(void) {}

int onstack_thread_labels_swap(uint32_t place, const onstack_labels *labels, const onstack_labels **before) {
  (void)place, (void)labels;
  if (before) *before = NULL;
  return ONSTACK_E_UNSUPPORTED;
}

const onstack_labels *onstack_thread_labels_get(uint32_t place) {
  (void)place;
  return NULL;
}

void onstack_heap_allocated(const void *address, size_t size) { (void)address, (void)size; }

void onstack_heap_freed(const void *address) { (void)address; }

void onstack_heap_moved(const void *from, const void *to, size_t size) { (void)from, (void)to, (void)size; }

const onstack_heap_state *onstack_heap_state_get(void) {
  static const onstack_heap_state never;
  return &never;
}

uint64_t onstack_heap_distance(void) { return 0; }

void onstack_heap_take(const void *address, size_t size) { (void)address, (void)size; }
