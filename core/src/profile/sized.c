/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/sized.h"

#include "onstack/onstack.h"

#include <string.h>

int onstack_profile_sized_copy(void *known, size_t known_bytes, const void *given) {
  uint32_t size;
  memcpy(&size, given, sizeof(size));
  if (size < sizeof(size) || size > ONSTACK_SIZED_LIMIT) return ONSTACK_E_OPTIONS;
  for (size_t i = known_bytes; i < size; i++) {
    if (((const char *)given)[i] != 0) return ONSTACK_E_OPTIONS;
  }
  memset(known, 0, known_bytes);
  memcpy(known, given, size < known_bytes ? size : known_bytes);
  return 0;
}

int onstack_profile_switch_read(uint8_t value, bool *on) {
  if (value > ONSTACK_OFF) return ONSTACK_E_OPTIONS;
  *on = value != ONSTACK_OFF;
  return 0;
}
