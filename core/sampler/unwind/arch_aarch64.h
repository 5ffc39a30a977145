/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sampler/unwind/arch.h for aarch64. */
#ifndef ONSTACK_SAMPLER_UNWIND_ARCH_AARCH64_H
#define ONSTACK_SAMPLER_UNWIND_ARCH_AARCH64_H

#include "platform/defs.h"

#define ONSTACK_ARCH_LINK_REGISTER true
#define ONSTACK_ARCH_FOLLOWS_BX false
#define ONSTACK_ARCH_CODE_ALIGN 3u
#define ONSTACK_ARCH_SYSCALL_BYTES 4u /* svc */

/* A Go frame (cmd/internal/obj/arm64/obj7.go) has LR at SP, the caller's x29 in the word below, and x29 = SP - 8; the
   record for duffzero and duffcopy is at SP - 24. runtime/asm_arm64.s, asmcgocall: 0(RSP) = g, 8(RSP) = depth. */
#define ONSTACK_GO_RECORD_BELOW 8u
#define ONSTACK_FIRST_RECORD_BELOW 24u
#define ONSTACK_GO_SAVED_G 0u

/*
 * A pointer authentication code may stand in the bits above: user addresses have bit 55 clear, so clearing the bits from
 * 48 on is right for 48-bit address spaces; Linux hands out higher addresses only to programs that ask for them.
 */
static inline __attribute__((always_inline, unused)) uint64_t onstack_address_strip(uint64_t address) {
  return address & (((uint64_t)1 << 48) - 1);
}

#define ONSTACK_CALL_BYTES 8u /* in front of the return address, that have to be looked at */

/* Arm ARM C6.2: bl, blr, and blraa, blrab, blraaz, blrabz. */
static inline ONSTACK_HANDLER bool onstack_call_ends(const uint8_t code[ONSTACK_CALL_BYTES]) {
  uint32_t word = (uint32_t)code[4] | (uint32_t)code[5] << 8 | (uint32_t)code[6] << 16 | (uint32_t)code[7] << 24;
  return (word & 0xfc000000u) == 0x94000000u || (word & 0xfefff000u) == 0xd63f0000u;
}

/* HotSpot's have not been looked at here. */
static inline ONSTACK_HANDLER bool onstack_return_entry_begins(uint64_t code) {
  (void)code;
  return false;
}

#endif
