/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The processor that the handler runs on, from the file that is named after it: the registers in a ucontext, and the
 * instructions of which the handler's own entry is made. (What is known of code that is walked: sampler/unwind/arch.h.)
 * Each file defines
 *
 *   onstack_registers_from(out, context)    ucontext -> neutral registers
 *   onstack_registers_pc(context)           the interrupted PC alone
 *   onstack_registers_free_below(context)   the interrupted stack is free below this address
 *   onstack_registers_ended_call(context)   the signal has ended a system call of the interrupted code, which does not
 *                                           begin again by itself (signal(7))
 *   onstack_registers_first_context(context)
 *                                           of code that is at the first instruction of a signal handler: the context that
 *                                           it was given, if it lies where the kernel puts it; NULL: it does not
 *   onstack_arch_thread_pointer()
 *   ONSTACK_ARCH_SELF_IS_POINTER            1: the thread pointer is pthread_self()
 *   ONSTACK_ARCH_ENTRY_JUMP                 a trampoline's code: its number in the fourth argument, and on to
 *                                           onstack_handler_entry. In .irp, with \number
 *   ONSTACK_ARCH_CALL_ON_STACK(function)    the body of a C function (data, sp): calls function(data, our stack pointer)
 *                                           on the stack that ends at sp
 *
 * No other file knows the ucontext's layout.
 */
#ifndef ONSTACK_PLATFORM_CONTEXT_H
#define ONSTACK_PLATFORM_CONTEXT_H

#if defined(__x86_64__)
#include "platform/context_x86_64.h"
#elif defined(__aarch64__)
#include "platform/context_aarch64.h"
#endif

#endif
