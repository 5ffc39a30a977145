/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/action.h"

#include <ucontext.h>

ONSTACK_INTERNAL_DEFINE onstack_action onstack_actions[ONSTACK_SIGNALS];

typedef void (*action_plain)(int);
typedef void (*action_info)(int, siginfo_t *, void *);

/* The kernel's mask of the interrupted code: the first 64 bits of uc_sigmask in every libc. */
static ONSTACK_HANDLER onstack_kernel_sigset action_interrupted_mask(const ucontext_t *context) {
  return *(const onstack_kernel_sigset *)(const void *)&context->uc_sigmask;
}

/*
 * Contexts that are being forwarded right now, by any thread. An owner that chains to us, and that we found when we
 * started again, closes a circle: the same ucontext comes back while it is still under way, further down the stack.
 * At the same depth or above, the note is a left-over of an owner that left by siglongjmp, and is taken over.
 * A full table leaves the newest forward unguarded.
 */
#define ACTION_IN_FLIGHT 64u
static struct {
  uint64_t context;
  uint64_t frame; /* written by the thread whose context it is */
} action_in_flight[ACTION_IN_FLIGHT];

/* False if `context` is under way already. *place is where it is noted, or ACTION_IN_FLIGHT. */
static ONSTACK_HANDLER bool action_enter_flight(uint64_t context, uint64_t frame, uint32_t *place) {
  for (uint32_t i = 0; i < ACTION_IN_FLIGHT; i++) {
    if (onstack_load_relaxed(&action_in_flight[i].context) != context) continue;
    if (frame < onstack_load_relaxed(&action_in_flight[i].frame)) return false;
    onstack_store_relaxed(&action_in_flight[i].frame, frame);
    *place = i;
    return true;
  }
  for (*place = 0; *place < ACTION_IN_FLIGHT; (*place)++) {
    uint64_t expected = 0;
    if (onstack_load_relaxed(&action_in_flight[*place].context) != 0 ||
        !onstack_cas(&action_in_flight[*place].context, &expected, context))
      continue;
    onstack_store_relaxed(&action_in_flight[*place].frame, frame);
    break;
  }
  return true;
}

/*
 * Our handler runs with every signal blocked, so that nothing can nest over a claimed ring entry. An owner that asked
 * for less gets exactly what the kernel would have given it: interrupted mask + its own mask + the signal itself
 * (unless SA_NODEFER). Go asks for everything, and depends on it; then no system call is needed.
 */
ONSTACK_HANDLER void onstack_action_forward(int signal, siginfo_t *info, void *context) {
  onstack_action *action = &onstack_actions[signal];
  uint64_t handler = onstack_observe(&action->handler); /* pairs with the publish in control/action.c */
  uint64_t flags = onstack_load_relaxed(&action->flags);
  if (handler == (uint64_t)(uintptr_t)SIG_DFL || handler == (uint64_t)(uintptr_t)SIG_IGN) {
    onstack_add_relaxed(&action->swallowed, (uint64_t)1);
    return;
  }
  /* SA_RESETHAND: the first one to come takes the handler, the rest meet SIG_DFL, which we swallow. */
  if (flags & (uint64_t)SA_RESETHAND) {
    uint64_t expected = handler;
    if (!onstack_cas(&action->handler, &expected, (uint64_t)(uintptr_t)SIG_DFL)) {
      onstack_add_relaxed(&action->swallowed, (uint64_t)1);
      return;
    }
  }
  uint32_t place;
  if (!action_enter_flight((uint64_t)(uintptr_t)context, (uint64_t)(uintptr_t)__builtin_frame_address(0), &place)) {
    onstack_add_relaxed(&action->looped, (uint64_t)1);
    return;
  }
  onstack_add_relaxed(&action->forwarded, (uint64_t)1);
  if (info->si_code == SI_TIMER) onstack_add_relaxed(&action->forwarded_timer, (uint64_t)1);
  onstack_kernel_sigset wanted = action_interrupted_mask(context) | onstack_load_relaxed(&action->mask);
  if (!(flags & (uint64_t)SA_NODEFER)) wanted |= ONSTACK_SIGBIT(signal);
  /* SIGKILL and SIGSTOP cannot be blocked, whatever a mask says. */
  const onstack_kernel_sigset everything = ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP));
  bool narrower = (wanted & everything) != everything;
  onstack_kernel_sigset ours = 0;
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &wanted, &ours);
  if (flags & (uint64_t)SA_SIGINFO)
    ((action_info)(uintptr_t)handler)(signal, info, context);
  else
    ((action_plain)(uintptr_t)handler)(signal);
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &ours, NULL);
  if (place < ACTION_IN_FLIGHT) onstack_publish(&action_in_flight[place].context, (uint64_t)0);
}
