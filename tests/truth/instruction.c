/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "instruction.h"

#include <stdbool.h>

static bool instruction_is_prefix(uint8_t byte) {
  switch (byte) {
  case 0x26: /* segments; 3e is notrack */
  case 0x2e:
  case 0x36:
  case 0x3e:
  case 0x64:
  case 0x65:
  case 0x66: /* the call of __tls_get_addr carries two of these */
  case 0x67:
  case 0xf2: /* bnd */
  case 0xf3:
    return true;
  default:
    return byte >= 0x40 && byte <= 0x4f; /* REX */
  }
}

truth_instruction truth_instruction_kind(const uint8_t *code) {
  int at = 0;
  while (at < 14 && instruction_is_prefix(code[at])) at++;
  if (code[at] == 0xe8) return TRUTH_CALL;
  if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2) return TRUTH_CALL;
  if (code[at] == 0x0f && code[at + 1] == 0x05) return TRUTH_SYSCALL;
  return TRUTH_OTHER;
}
