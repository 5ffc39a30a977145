/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The processor whose code is walked, from the file that is named after it. Nothing here needs that processor to run on:
 * tests walk recorded stacks of another one. Each file defines
 *
 *   onstack_address_strip(address)   a return address as memory holds it, without what is no address
 *   onstack_call_ends(code)          does a call end where a return address points, behind ONSTACK_CALL_BYTES of code?
 *   onstack_return_entry_begins(code)
 *                                    is the code at a return address that of an entry that is only returned to?
 *   ONSTACK_ARCH_LINK_REGISTER       true: the return address is in a register until the function stores it
 *   ONSTACK_ARCH_FOLLOWS_BX          true: rules follow RBX as well, which the lazy resolver keeps its frame in
 *   ONSTACK_ARCH_CODE_ALIGN          the bits that are zero in every instruction's address
 *   ONSTACK_ARCH_SYSCALL_BYTES       bytes of the instruction that makes a system call
 *   ONSTACK_GO_RECORD_BELOW          how far below SP a Go frame's record {frame pointer, return address} begins
 *   ONSTACK_FIRST_RECORD_BELOW       how far below SP the first record of a walk may begin
 *   ONSTACK_GO_SAVED_G               which of the two words that asmcgocall stores is g; the other one is the depth
 *
 * onstack_call_ends is the last defence against inventing frames: unwind information can be wrong (assembly that moves SP
 * unsaid), and then the word beside the return address is taken for it. It can only be believed if the code in front of
 * it is a call.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_ARCH_H
#define ONSTACK_SAMPLER_UNWIND_ARCH_H

#if defined(__x86_64__)
#include "sampler/unwind/arch_x86_64.h"
#elif defined(__aarch64__)
#include "sampler/unwind/arch_aarch64.h"
#endif

#endif
