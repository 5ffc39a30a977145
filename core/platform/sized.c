/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/sized.h"

#include "onstack/onstack.h"

#include <string.h>

_Static_assert(offsetof(onstack_options, fork_sink_data) == ONSTACK_OPTIONS_SIZE_0_1, "old sizes stay known");

/* 0: not a size. */
static uint32_t sized_read(const void *given, size_t least_bytes) {
  uint32_t size;
  memcpy(&size, given, sizeof(size));
  return size >= sizeof(size) && size >= least_bytes && size <= ONSTACK_SIZED_LIMIT ? size : 0;
}

int onstack_sized_check(const void *given, size_t known_bytes, size_t least_bytes) {
  const uint32_t size = sized_read(given, least_bytes);
  if (size == 0) return ONSTACK_E_OPTIONS;
  for (size_t i = known_bytes; i < size; i++)
    if (((const char *)given)[i] != 0) return ONSTACK_E_OPTIONS;
  return 0;
}

int onstack_sized_copy(void *known, size_t known_bytes, size_t least_bytes, const void *given) {
  const int error = onstack_sized_check(given, known_bytes, least_bytes);
  if (error != 0) return error;
  const uint32_t size = sized_read(given, least_bytes);
  memset(known, 0, known_bytes);
  memcpy(known, given, size < known_bytes ? size : known_bytes);
  return 0;
}

int onstack_sized_fill(void *given, size_t least_bytes, const void *known, size_t known_bytes) {
  const uint32_t size = sized_read(given, least_bytes);
  if (size == 0) return ONSTACK_E_OPTIONS;
  const uint32_t used = size < known_bytes ? size : (uint32_t)known_bytes;
  memset(given, 0, size);
  memcpy(given, known, used);
  memcpy(given, &used, sizeof(used));
  return 0;
}

int onstack_options_init(onstack_options *options, size_t size) {
  if (!options || size < ONSTACK_OPTIONS_SIZE_0_1) return ONSTACK_E_VERSION;
  uint8_t *bytes = (uint8_t *)options;
  for (size_t i = 0; i < size; i++) bytes[i] = 0;
  options->size = (uint32_t)size;
  return 0;
}

int onstack_switch_read(uint8_t value, bool *on) {
  if (value > ONSTACK_OFF) return ONSTACK_E_OPTIONS;
  *on = value != ONSTACK_OFF;
  return 0;
}
