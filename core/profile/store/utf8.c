/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/utf8.h"

size_t onstack_profile_utf8_length(const char *text, size_t left) {
  const unsigned char *bytes = (const unsigned char *)text;
  unsigned char lead = bytes[0];
  size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length > left) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0;
  }
  if (length < 3) return length;
  /* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
  if (lead == 0xE0 && bytes[1] < 0xA0) return 0;
  if (lead == 0xED && bytes[1] > 0x9F) return 0;
  if (lead == 0xF0 && bytes[1] < 0x90) return 0;
  if (lead == 0xF4 && bytes[1] > 0x8F) return 0;
  return length;
}

/* A character of three bytes. */
static uint32_t utf8_three(const unsigned char *bytes) {
  return (uint32_t)(bytes[0] & 0x0F) << 12 | (uint32_t)(bytes[1] & 0x3F) << 6 | (uint32_t)(bytes[2] & 0x3F);
}

bool onstack_profile_utf8_is_obeyed(const char *character, size_t length) {
  const unsigned char *bytes = (const unsigned char *)character;
  if (length == 1) return bytes[0] < 0x20 || bytes[0] == 0x7F;
  if (length == 2) return (bytes[0] == 0xC2 && bytes[1] < 0xA0) || (bytes[0] == 0xD8 && bytes[1] == 0x9C); /* U+061C */
  if (length != 3) return false;
  const uint32_t code = utf8_three(bytes);
  return code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}
