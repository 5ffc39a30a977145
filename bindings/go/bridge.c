/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

#include "bridge.h"

#include "_cgo_export.h"

#include <string.h>

int onstackgo_options(onstack_options *options, onstack_profile *profile) {
  int result = onstack_options_init(options, sizeof *options);
  if (result < 0) {
    return result;
  }
  options->on_stack = ONSTACK_ON;
  options->threads = ONSTACK_OFF;
  options->sink = onstack_profile_sink;
  options->sink_data = profile;
  return 0;
}

static int onstackgo_on_bytes(void *handle, const void *bytes, size_t length) {
  return onstackgoCollect((uintptr_t)handle, (void *)bytes, length);
}

int onstackgo_on_addresses(void *handle, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  (void)handle;
  return onstackgoSymbolize((uint64_t *)addresses, count, table);
}

/* C++ begins with _Z, Rust with _ZN or _R. Most names are Go's and C's: for them nobody calls into Go. */
size_t onstackgo_on_name(void *handle, const char *system_name, char *out, size_t capacity) {
  (void)handle;
  if (strncmp(system_name, "_Z", 2) != 0 && strncmp(system_name, "_R", 2) != 0 && strncmp(system_name, "__Z", 3) != 0) {
    return 0;
  }
  return onstackgoDemangle((char *)system_name, out, capacity);
}

int onstackgo_write(onstack_profile *profile, int form, const onstack_write_options *options, uintptr_t handle) {
  if (form == ONSTACKGO_FOLDED) {
    return onstack_profile_write_folded(profile, options, onstackgo_on_bytes, (void *)handle);
  }
  return onstack_profile_write_pprof(profile, options, onstackgo_on_bytes, (void *)handle);
}

int onstackgo_stats_text(onstack_session *session, uintptr_t handle) {
  return onstack_session_stats_text(session, onstackgo_on_bytes, (void *)handle);
}

int onstackgo_memory_text(onstack_session *session, uint64_t object, uint64_t in_use, uint64_t stacks, uint64_t other,
                          uint64_t idle, uintptr_t handle) {
  onstack_runtime_memory go = {
      .size = sizeof go,
      .name = "Go",
      .address = object,
      .in_use = in_use,
      .stacks = stacks,
      .other = other,
      .idle = idle,
  };
  return onstack_session_memory_text(session, &go, onstackgo_on_bytes, (void *)handle);
}

int onstackgo_dump(const onstack_write_options *options, uintptr_t handle) {
  onstack_interpreters_register();
  return onstack_dump(options, onstackgo_on_bytes, (void *)handle);
}

static int onstackgo_on_module(void *handle, const onstack_module_stats *module) {
  onstackgoModule((uintptr_t)handle, (onstack_module_stats *)module);
  return 0;
}

int onstackgo_modules(onstack_session *session, uintptr_t handle) {
  return onstack_session_modules(session, onstackgo_on_module, (void *)handle);
}

int onstackgo_symbol_add(onstack_symbol_table *table, size_t index, const char *name, const char *file, int64_t line,
                         int64_t start_line) {
  onstack_symbol_line added = {
      .size = sizeof added,
      .name = name,
      .file = file,
      .line = line,
      .start_line = start_line,
  };
  return onstack_symbol_add(table, index, &added);
}
