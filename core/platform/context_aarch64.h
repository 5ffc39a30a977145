/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* platform/context.h for aarch64. */
#ifndef ONSTACK_PLATFORM_CONTEXT_AARCH64_H
#define ONSTACK_PLATFORM_CONTEXT_AARCH64_H

#include "platform/defs.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <ucontext.h>

static inline __attribute__((always_inline, unused)) void onstack_registers_from(onstack_registers *out,
                                                                                 const ucontext_t *context) {
  out->pc = context->uc_mcontext.pc;
  out->sp = context->uc_mcontext.sp;
  out->fp = context->uc_mcontext.regs[29];
  out->lr = context->uc_mcontext.regs[30];
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(out->reserved); i++) out->reserved[i] = 0;
}

static inline __attribute__((always_inline, unused)) uint64_t onstack_registers_pc(const ucontext_t *context) {
  return context->uc_mcontext.pc;
}

static inline __attribute__((always_inline, unused)) uint64_t onstack_registers_free_below(const ucontext_t *context) {
  return context->uc_mcontext.sp;
}

static inline __attribute__((always_inline, unused)) bool onstack_registers_ended_call(const ucontext_t *context) {
  return (int64_t)context->uc_mcontext.regs[0] == -EINTR;
}

/* Behind the siginfo of 128 bytes (arch/arm64/kernel/signal.c, rt_sigframe). */
static inline __attribute__((always_inline, unused)) ucontext_t *onstack_registers_first_context(const ucontext_t *context) {
  const uint64_t third = context->uc_mcontext.regs[2];
  const uint64_t place = context->uc_mcontext.sp + 128;
  return third == place ? (ucontext_t *)(uintptr_t)third : NULL;
}

/* pthread_self() lies below it by the size of libc's own struct. */
#define ONSTACK_ARCH_SELF_IS_POINTER 0

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_arch_thread_pointer(void) {
  uint64_t value;
  __asm__ volatile("mrs %0, tpidr_el0" : "=r"(value));
  return value;
}

/* From the thread pointer to the address of the DTV (sysdeps/aarch64/nptl/tls.h; musl's struct pthread ends there). */
#define ONSTACK_ARCH_DTV_GLIBC 0
#define ONSTACK_ARCH_DTV_MUSL (-8)

/* bti c first */
#define ONSTACK_ARCH_ENTRY_JUMP "hint #34\nmov w3, #\\number\nb onstack_handler_entry\n"

#define ONSTACK_ARCH_CALL_ON_STACK(function)                                                                                \
  "hint #34\nstp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"                \
  "mov x29, sp\n.cfi_def_cfa_register x29\n"                                                                                \
  "mov sp, x1\nmov x1, x29\nbl " function "\n"                                                                              \
  "mov sp, x29\nldp x29, x30, [sp], #16\n.cfi_def_cfa sp, 0\nret\n"

#endif
