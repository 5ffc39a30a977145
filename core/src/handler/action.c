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
 * Contexts that are being forwarded right now, by any thread, and to which level. An owner that chains to us brings the
 * same ucontext in again while it is under way, further down the stack: then it is the next level's turn, and when there
 * is none it is a circle. At the same depth or above, the note is a left-over of an owner that left by siglongjmp, and
 * is taken over. A full table leaves the newest forward unguarded.
 */
#define ACTION_IN_FLIGHT 64u
static struct {
  uint64_t context;
  uint64_t frame; /* this and `level` are written by the thread whose context it is */
  uint32_t level;
} action_in_flight[ACTION_IN_FLIGHT];

/* The level that this context goes to now; *place is where that is noted, or ACTION_IN_FLIGHT. */
static ONSTACK_HANDLER uint32_t action_enter_flight(uint64_t context, uint64_t frame, uint32_t *place) {
  for (uint32_t i = 0; i < ACTION_IN_FLIGHT; i++) {
    if (onstack_load_relaxed(&action_in_flight[i].context) != context) continue;
    *place = i;
    if (frame < action_in_flight[i].frame) return ++action_in_flight[i].level;
    action_in_flight[i].frame = frame;
    return action_in_flight[i].level = 0;
  }
  for (*place = 0; *place < ACTION_IN_FLIGHT; (*place)++) {
    uint64_t expected = 0;
    if (onstack_load_relaxed(&action_in_flight[*place].context) != 0 ||
        !onstack_cas(&action_in_flight[*place].context, &expected, context))
      continue;
    action_in_flight[*place].frame = frame;
    action_in_flight[*place].level = 0;
    break;
  }
  return 0;
}

/* Only the outermost forward of a context takes its note away. */
static ONSTACK_HANDLER void action_leave_flight(uint32_t place, uint32_t level) {
  if (place >= ACTION_IN_FLIGHT) return;
  if (level == 0)
    onstack_publish(&action_in_flight[place].context, (uint64_t)0);
  else
    action_in_flight[place].level = level - 1;
}

/*
 * Our handler runs with every signal blocked, so that nothing can nest over a claimed ring entry. An owner that asked
 * for less gets exactly what the kernel would have given it: interrupted mask + its own mask + the signal itself
 * (unless SA_NODEFER). Go asks for everything, and depends on it; then no system call is needed.
 */
static ONSTACK_HANDLER void action_call(const struct onstack_kernel_sigaction *found, int signal, siginfo_t *info,
                                        void *context) {
  onstack_kernel_sigset wanted = action_interrupted_mask(context) | found->mask;
  if (!(found->flags & (uint64_t)SA_NODEFER)) wanted |= ONSTACK_SIGBIT(signal);
  /* SIGKILL and SIGSTOP cannot be blocked, whatever a mask says. */
  const onstack_kernel_sigset everything = ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP));
  bool narrower = (wanted & everything) != everything;
  onstack_kernel_sigset ours = 0;
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &wanted, &ours);
  if (found->flags & (uint64_t)SA_SIGINFO)
    ((action_info)(uintptr_t)found->handler)(signal, info, context);
  else
    ((action_plain)(uintptr_t)found->handler)(signal);
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &ours, NULL);
}

static ONSTACK_HANDLER bool action_takes_signals(onstack_found *found) {
  uint32_t fresh = 0;
  if (!found || found->action.handler == (uint64_t)(uintptr_t)SIG_DFL ||
      found->action.handler == (uint64_t)(uintptr_t)SIG_IGN)
    return false;
  /* SA_RESETHAND: the first signal takes the handler, the rest meet SIG_DFL, which we swallow. */
  return !(found->action.flags & (uint64_t)SA_RESETHAND) || onstack_cas(&found->spent, &fresh, 1u);
}

ONSTACK_HANDLER void onstack_action_forward(int signal, siginfo_t *info, void *context) {
  onstack_action *action = &onstack_actions[signal];
  uint32_t place;
  uint32_t level = action_enter_flight((uint64_t)(uintptr_t)context, (uint64_t)(uintptr_t)__builtin_frame_address(0),
                                       &place);
  onstack_found *found = level < ONSTACK_ACTION_LEVELS ? onstack_observe(&action->levels[level]) : NULL;
  if (level > 0 && !found) {
    onstack_add_relaxed(&action->looped, (uint64_t)1);
  } else if (!action_takes_signals(found)) {
    if (level == 0) onstack_add_relaxed(&action->swallowed, (uint64_t)1);
  } else {
    /* Counted once for each signal, at the first level. */
    if (level == 0) onstack_add_relaxed(&action->forwarded, (uint64_t)1);
    if (level == 0 && info->si_code == SI_TIMER) onstack_add_relaxed(&action->forwarded_timer, (uint64_t)1);
    action_call(&found->action, signal, info, context);
  }
  action_leave_flight(place, level);
}
