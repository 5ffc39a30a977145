/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/nesting.h"

#include "platform/sys.h"
#include "sampler/signal/copy.h"
#include "platform/context.h"

#include <signal.h>

ONSTACK_INTERNAL_DEFINE onstack_nesting onstack_nesting_state;

#define NESTING_FRAMES 16u /* more are not looked through: there are fewer timers of one thread, and it ends */

/*
 * The context of the frame below, if this one interrupted a handler of ours at its first instruction. There the registers
 * are as the kernel has set them: its frame at the stack pointer, and the third argument leads into that very frame. An owner
 * that calls ours like a function, with whatever arguments, has no such frame there.
 */
static ONSTACK_HANDLER ucontext_t *nesting_below(const ucontext_t *context) {
  const uint64_t pc = onstack_registers_pc(context);
  if (onstack_trampoline_at(&onstack_copy_self, pc) >= ONSTACK_TRAMPOLINES) return NULL;
  return onstack_registers_first_context(context);
}

/* The kernel has left nothing open but the signal itself; an owner's mask is its own affair. */
static ONSTACK_HANDLER bool nesting_is_called(onstack_kernel_sigset mask, onstack_kernel_sigset itself) {
  const onstack_kernel_sigset never = ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP);
  return !(mask & itself) && (mask | itself | never) != ~(onstack_kernel_sigset)0;
}

ONSTACK_HANDLER void *onstack_nesting_enter(int signal, siginfo_t *info, void *from, uint32_t trampoline) {
  ucontext_t *context = from, *below;
  const uint64_t stack = context->uc_stack.ss_size;
  const uint64_t least = onstack_load_relaxed(&onstack_nesting_state.least);
  /* Two that write at once may lose the smaller one, until its thread's next tick. */
  if (stack > 0 && (least == 0 || stack < least)) onstack_store_relaxed(&onstack_nesting_state.least, stack);
  if (!onstack_load_relaxed(&onstack_nesting_state.open)) return context;
  const onstack_kernel_sigset set = ONSTACK_SIGBIT(signal);
  onstack_kernel_sigset entered = 0;
  onstack_sys_sigprocmask(SIG_BLOCK, &set, &entered);
  for (uint32_t i = 0; i < NESTING_FRAMES && (below = nesting_below(context)); i++) context = below;
  if (!nesting_is_called(entered, set)) return context;
  onstack_handler_go_on(signal, info, context, trampoline);
  onstack_sys_sigprocmask(SIG_SETMASK, &entered, NULL);
  return NULL;
}
