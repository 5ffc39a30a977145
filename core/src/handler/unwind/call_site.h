/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Does a call end where a return address points? The last defence against inventing frames: unwind information can be
 * wrong (assembly that moves SP unsaid), and then the word beside the return address is taken for it. It can only be
 * believed if the code in front of it is a call.
 */
#ifndef ONSTACK_HANDLER_UNWIND_CALL_SITE_H
#define ONSTACK_HANDLER_UNWIND_CALL_SITE_H

#include "base/defs.h"

#define ONSTACK_CALL_BYTES 8u /* in front of the return address, that have to be looked at */

#if defined(__x86_64__)
/*
 * Intel SDM volume 2, CALL: e8 rel32, and ff /2 with its ModRM forms (2 to 7 bytes; a REX or segment prefix in front does
 * not matter here). `code` ends at the return address.
 */
static inline ONSTACK_HANDLER bool onstack_call_ends(const uint8_t code[ONSTACK_CALL_BYTES]) {
  const uint8_t *end = code + ONSTACK_CALL_BYTES;
  if (end[-5] == 0xe8) return true;
  /* ff, then ModRM: mod (2 bits), 2 (3 bits), rm (3 bits). rm 4 brings a SIB byte; mod 0 with rm 5 a disp32. */
  if (end[-2] == 0xff && ((end[-1] & 0xf8) == 0xd0 || ((end[-1] & 0xf8) == 0x10 && end[-1] != 0x14 && end[-1] != 0x15)))
    return true;
  if (end[-3] == 0xff && (((end[-2] & 0xf8) == 0x50 && end[-2] != 0x54) || (end[-2] == 0x14 && (end[-1] & 7) != 5)))
    return true;
  if (end[-4] == 0xff && end[-3] == 0x54) return true;
  if (end[-6] == 0xff && (end[-5] == 0x15 || ((end[-5] & 0xf8) == 0x90 && end[-5] != 0x94))) return true;
  return end[-7] == 0xff && (end[-6] == 0x94 || (end[-6] == 0x14 && (end[-5] & 7) == 5));
}
#elif defined(__aarch64__)
/* Arm ARM C6.2: bl, blr, and blraa, blrab, blraaz, blrabz. */
static inline ONSTACK_HANDLER bool onstack_call_ends(const uint8_t code[ONSTACK_CALL_BYTES]) {
  uint32_t word = (uint32_t)code[4] | (uint32_t)code[5] << 8 | (uint32_t)code[6] << 16 | (uint32_t)code[7] << 24;
  return (word & 0xfc000000u) == 0x94000000u || (word & 0xfefff000u) == 0xd63f0000u;
}
#endif

#endif
