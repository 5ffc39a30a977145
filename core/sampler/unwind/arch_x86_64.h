/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sampler/unwind/arch.h for x86_64. */
#ifndef ONSTACK_SAMPLER_UNWIND_ARCH_X86_64_H
#define ONSTACK_SAMPLER_UNWIND_ARCH_X86_64_H

#include "platform/defs.h"

#define ONSTACK_ARCH_LINK_REGISTER false
#define ONSTACK_ARCH_FOLLOWS_BX true
#define ONSTACK_ARCH_CODE_ALIGN 0u
#define ONSTACK_ARCH_SYSCALL_BYTES 2u /* syscall */

/* runtime/asm_amd64.s, asmcgocall: 0(SP) = depth, 8(SP) = g. */
#define ONSTACK_GO_RECORD_BELOW 0u
#define ONSTACK_FIRST_RECORD_BELOW 0u
#define ONSTACK_GO_SAVED_G 1u

static inline __attribute__((always_inline, unused)) uint64_t onstack_address_strip(uint64_t address) { return address; }

#define ONSTACK_CALL_BYTES 8u /* in front of the return address, that have to be looked at */

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

/*
 * HotSpot's interpreter gives its callees the address of an entry to return to, and no call stands before that. The entry takes
 * SP from the interpreter's frame first (templateInterpreterGenerator_x86.cpp, generate_return_entry_for): mov rsp, [rbp - 16];
 * movq [rbp - 16], 0. Since JDK 22: mov rcx, [rbp - 16]; lea rsp, [rbp + rcx * 8].
 */
static inline ONSTACK_HANDLER bool onstack_return_entry_begins(uint64_t code) {
  return code == 0xf045c748f0658b48u || code == 0xcd648d48f04d8b48u;
}

#endif
