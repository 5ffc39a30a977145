/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* platform/context.h for x86_64. */
#ifndef ONSTACK_PLATFORM_CONTEXT_X86_64_H
#define ONSTACK_PLATFORM_CONTEXT_X86_64_H

#include "platform/defs.h"
#include "platform/sys.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <ucontext.h>

static inline __attribute__((always_inline, unused)) void onstack_registers_from(onstack_registers *out,
                                                                                 const ucontext_t *context) {
  out->pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
  out->sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
  out->fp = (uint64_t)context->uc_mcontext.gregs[REG_RBP];
  out->lr = 0;
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(out->reserved); i++) out->reserved[i] = 0;
  out->reserved[ONSTACK_REGISTER_RBX] = (uint64_t)context->uc_mcontext.gregs[REG_RBX];
}

static inline __attribute__((always_inline, unused)) uint64_t onstack_registers_pc(const ucontext_t *context) {
  return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

/* The red zone (System V ABI, AMD64 supplement, 3.2.2) is in use. */
static inline __attribute__((always_inline, unused)) uint64_t onstack_registers_free_below(const ucontext_t *context) {
  return (uint64_t)context->uc_mcontext.gregs[REG_RSP] - 128;
}

static inline __attribute__((always_inline, unused)) bool onstack_registers_ended_call(const ucontext_t *context) {
  return context->uc_mcontext.gregs[REG_RAX] == -EINTR;
}

/* Behind the return address (arch/x86/include/asm/sigframe.h, rt_sigframe). */
static inline __attribute__((always_inline, unused)) ucontext_t *onstack_registers_first_context(const ucontext_t *context) {
  const uint64_t third = (uint64_t)context->uc_mcontext.gregs[REG_RDX];
  const uint64_t place = (uint64_t)context->uc_mcontext.gregs[REG_RSP] + 8;
  return third == place ? (ucontext_t *)(uintptr_t)third : NULL;
}

/* pthread_self() of both libcs: their struct begins there. */
#define ONSTACK_ARCH_SELF_IS_POINTER 1

/* Rarely needed, so a system call is good enough; the register itself is not readable everywhere (FSGSBASE). */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_arch_thread_pointer(void) {
  uint64_t value = 0;
  onstack_sys_call2(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS, asm/prctl.h */, (long)&value);
  return value;
}

/* From the thread pointer to the address of the DTV (sysdeps/x86_64/nptl/tls.h; musl's struct pthread). */
#define ONSTACK_ARCH_DTV_GLIBC 8
#define ONSTACK_ARCH_DTV_MUSL 8

#define ONSTACK_ARCH_ENTRY_JUMP "endbr64\nmovl $\\number, %ecx\njmp onstack_handler_entry\n"

#define ONSTACK_ARCH_CALL_ON_STACK(function)                                                                                \
  "endbr64\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"                                                     \
  "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"                                                                            \
  "mov %rsi, %rsp\nmov %rbp, %rsi\ncall " function "\n"                                                                     \
  "mov %rbp, %rsp\npop %rbp\n.cfi_def_cfa %rsp, 8\nret\n"

#endif
