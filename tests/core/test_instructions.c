/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an interpreter's instructions tell, as compilers write them (sampler/interpreter/interpreter.h). */
#include "support.h"

#include "sampler/interpreter/interpreter.h"

#if defined(__x86_64__)

static uint64_t at(const void *code) { return (uint64_t)(uintptr_t)code; }

Test(instructions, frames_by_their_prologue) {
  /* endbr64; push %rbp; mov %rsp,%rbp; push %r13, %r12, %rbx; sub $0x88,%rsp; jmp */
  static const uint8_t framed[192] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x55, 0x41,
                                      0x54, 0x53, 0x48, 0x81, 0xec, 0x88, 0,    0,    0,    0xe9};
  /* push %r13, %r12, %rbp, %rbx; sub $0x78,%rsp: its rules tell */
  static const uint8_t frameless[192] = {0x41, 0x55, 0x41, 0x54, 0x55, 0x53, 0x48, 0x83, 0xec, 0x78, 0xe9};
  /* and $-32,%rsp: nobody can tell */
  static const uint8_t realigned[192] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0xe9};
  uint64_t size;
  cr_assert(onstack_loop_frame(at(framed), &size));
  cr_expect_eq(size, 0x88u + 24u);
  cr_assert(onstack_loop_frame(at(frameless), &size));
  cr_expect_eq(size, 0u);
  cr_expect(!onstack_loop_frame(at(realigned), &size));
}

#endif
