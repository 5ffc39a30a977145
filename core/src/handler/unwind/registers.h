/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ucontext -> neutral registers. The only file in handler/ that knows the ucontext layout. */
#ifndef ONSTACK_HANDLER_UNWIND_REGISTERS_H
#define ONSTACK_HANDLER_UNWIND_REGISTERS_H

#include "base/defs.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <ucontext.h>

static inline __attribute__((always_inline, unused)) void onstack_registers_from(onstack_registers *out,
                                                                                 const ucontext_t *context) {
#if defined(__x86_64__)
  out->pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
  out->sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
  out->fp = (uint64_t)context->uc_mcontext.gregs[REG_RBP];
  out->bx = (uint64_t)context->uc_mcontext.gregs[REG_RBX];
  out->lr = 0;
#elif defined(__aarch64__)
  out->pc = context->uc_mcontext.pc;
  out->sp = context->uc_mcontext.sp;
  out->fp = context->uc_mcontext.regs[29];
  out->lr = context->uc_mcontext.regs[30];
  out->bx = 0;
#endif
}

static inline __attribute__((always_inline, unused)) uint64_t onstack_registers_pc(const ucontext_t *context) {
#if defined(__x86_64__)
  return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return context->uc_mcontext.pc;
#endif
}

/* The signal has ended a system call of the interrupted code, which does not begin again by itself (signal(7)). */
static inline __attribute__((always_inline, unused)) bool onstack_registers_ended_call(const ucontext_t *context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_RAX] == -EINTR;
#elif defined(__aarch64__)
  return (int64_t)context->uc_mcontext.regs[0] == -EINTR;
#endif
}

/*
 * Of code that is at the first instruction of a signal handler: the context that it was given, if it lies where the kernel
 * puts it. NULL: it does not. x86_64: behind the return address (arch/x86/include/asm/sigframe.h, rt_sigframe); aarch64:
 * behind the siginfo of 128 bytes (arch/arm64/kernel/signal.c, rt_sigframe).
 */
static inline __attribute__((always_inline, unused)) ucontext_t *onstack_registers_first_context(const ucontext_t *context) {
#if defined(__x86_64__)
  const uint64_t third = (uint64_t)context->uc_mcontext.gregs[REG_RDX];
  const uint64_t place = (uint64_t)context->uc_mcontext.gregs[REG_RSP] + 8;
#elif defined(__aarch64__)
  const uint64_t third = context->uc_mcontext.regs[2], place = context->uc_mcontext.sp + 128;
#endif
  return third == place ? (ucontext_t *)(uintptr_t)third : NULL;
}

#endif
