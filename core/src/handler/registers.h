/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ucontext -> neutral registers. The only file in handler/ that knows the ucontext layout. */
#ifndef ONSTACK_HANDLER_REGISTERS_H
#define ONSTACK_HANDLER_REGISTERS_H

#include "base/defs.h"
#include "onstack/onstack.h"

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

#endif
