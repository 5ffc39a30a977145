/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/owners.h"

#include "platform/context.h"
#include "sampler/signal/copy.h"

#include <ucontext.h>

ONSTACK_INTERNAL_DEFINE onstack_action onstack_actions[ONSTACK_SIGNALS];
ONSTACK_INTERNAL_DEFINE onstack_signal_counters onstack_signal_counts[ONSTACK_SIGNALS];

typedef void (*action_info)(int, siginfo_t *, void *);

/* The kernel's mask of the interrupted code: the first 64 bits of uc_sigmask in every libc. */
static ONSTACK_HANDLER onstack_kernel_sigset action_interrupted_mask(const ucontext_t *context) {
  return *(const onstack_kernel_sigset *)(const void *)&context->uc_sigmask;
}

/* The alternate stack that the thread had when the signal came; outside of it: the interrupted stack. */
static ONSTACK_HANDLER bool action_is_on_alternate(const ucontext_t *context, uint64_t sp) {
  return sp - (uint64_t)(uintptr_t)context->uc_stack.ss_sp < context->uc_stack.ss_size;
}

/*
 * Contexts that are being forwarded right now, by any thread. An owner that chains to us brings the same ucontext in
 * again while it is under way, further down the stack, or on the interrupted stack when it was called there. By another
 * trampoline that is the way down. By the same one (an owner that installed itself twice) it goes to the next level,
 * and when there is none it is a circle. Elsewhere on the stack the note is a left-over of an owner that left by
 * siglongjmp, and is taken over. A full table leaves the newest forward unguarded.
 */
#define ACTION_IN_FLIGHT 64u
static struct {
  uint64_t context;
  uint64_t frame; /* this and the rest are written by the thread whose context it is */
  uint64_t times; /* four bits for each trampoline: how often the context has come in by it */
  bool switched;  /* the owner runs on the interrupted stack */
} action_in_flight[ACTION_IN_FLIGHT];

#define ACTION_TIMES 15u
static ONSTACK_HANDLER uint64_t action_once(uint32_t trampoline) { return (uint64_t)1 << (4 * trampoline); }

static ONSTACK_HANDLER bool action_is_under_way(uint32_t place, const void *context, uint64_t frame) {
  if (action_in_flight[place].switched) return !action_is_on_alternate(context, frame);
  return frame < action_in_flight[place].frame;
}

static ONSTACK_HANDLER void action_note(uint32_t place, uint64_t frame) {
  action_in_flight[place].frame = frame;
  action_in_flight[place].times = 0;
  action_in_flight[place].switched = false;
}

/* Where this context is noted, now if it was not; ACTION_IN_FLIGHT: nowhere. */
static ONSTACK_HANDLER uint32_t action_find_flight(const void *from, uint64_t frame) {
  const uint64_t context = (uint64_t)(uintptr_t)from;
  for (uint32_t i = 0; i < ACTION_IN_FLIGHT; i++) {
    if (onstack_load_relaxed(&action_in_flight[i].context) != context) continue;
    if (!action_is_under_way(i, from, frame)) action_note(i, frame);
    return i;
  }
  for (uint32_t i = 0; i < ACTION_IN_FLIGHT; i++) {
    uint64_t expected = 0;
    if (onstack_load_relaxed(&action_in_flight[i].context) != 0 ||
        !onstack_cas(&action_in_flight[i].context, &expected, context))
      continue;
    action_note(i, frame);
    return i;
  }
  return ACTION_IN_FLIGHT;
}

/* The level that this context goes to now; *first: it has not been here by any trampoline. */
static ONSTACK_HANDLER uint32_t action_enter_flight(uint32_t place, uint32_t trampoline, bool *first) {
  *first = true;
  if (place >= ACTION_IN_FLIGHT) return 0;
  *first = action_in_flight[place].times == 0;
  uint32_t level = (uint32_t)(action_in_flight[place].times / action_once(trampoline)) & ACTION_TIMES;
  if (level < ACTION_TIMES) action_in_flight[place].times += action_once(trampoline);
  return level;
}

/* Only the outermost forward of a context takes its note away. */
static ONSTACK_HANDLER void action_leave_flight(uint32_t place, uint32_t trampoline, uint32_t level) {
  if (place >= ACTION_IN_FLIGHT) return;
  if (level < ACTION_TIMES) action_in_flight[place].times -= action_once(trampoline);
  if (action_in_flight[place].times == 0) onstack_publish(&action_in_flight[place].context, (uint64_t)0);
}

void onstack_action_forget_flights(void) {
  for (uint32_t i = 0; i < ACTION_IN_FLIGHT; i++)
    if (onstack_load_relaxed(&action_in_flight[i].context) != 0)
      onstack_store_relaxed(&action_in_flight[i].context, (uint64_t)0);
}

#define ACTION_ALTERNATE_LEAST 8192u /* the kernel's frame may take 3.4 KiB and more of it */

typedef struct action_delivery {
  const struct onstack_kernel_sigaction *previous;
  siginfo_t *info;
  void *context;
  int signal;
} action_delivery;

/*
 * Our handler runs with every signal blocked, so that nothing can nest over a claimed ring entry. An owner that asked
 * for less gets exactly what the kernel would have given it: interrupted mask + its own mask + the signal itself
 * (unless SA_NODEFER). Go asks for everything, and depends on it; then no system call is needed.
 */
static inline __attribute__((always_inline)) ONSTACK_HANDLER void
action_deliver(const struct onstack_kernel_sigaction *previous, int signal, siginfo_t *info, void *context) {
  onstack_kernel_sigset wanted = action_interrupted_mask(context) | previous->mask;
  if (!(previous->flags & (uint64_t)SA_NODEFER)) wanted |= ONSTACK_SIGBIT(signal);
  /* SIGKILL and SIGSTOP cannot be blocked, whatever a mask says. */
  const onstack_kernel_sigset everything = ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP));
  bool narrower = (wanted & everything) != everything;
  onstack_kernel_sigset ours = 0;
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &wanted, &ours);
  /* A handler without SA_SIGINFO does not look at the other two: so nothing hangs on flags and handler being of one moment
     where the kernel is writing them. */
  ((action_info)(uintptr_t)previous->handler)(signal, info, context);
  if (narrower) onstack_sys_sigprocmask(SIG_SETMASK, &ours, NULL);
}

/*
 * On the interrupted stack. A signal that comes meanwhile and has SA_ONSTACK must not begin at the top of the alternate
 * stack, where the frames are that we came from, down to `used`: it gets what is left below them, if that is enough for
 * anything, or comes here. Every signal is blocked until that is so, and again before it ends (action_deliver_on): in
 * between, with our stack pointer here, the kernel would take the alternate stack for free.
 */
static __attribute__((used)) ONSTACK_HANDLER_APART void action_deliver_here(const action_delivery *to, uint64_t used) {
  stack_t whole, rest;
  onstack_sys_call2(SYS_sigaltstack, 0, (long)&whole);
  uint64_t left = used - (uint64_t)(uintptr_t)whole.ss_sp;
  bool ours = !(whole.ss_flags & SS_DISABLE) && left < whole.ss_size;
  rest = whole;
  if (left >= ACTION_ALTERNATE_LEAST)
    rest.ss_size = left;
  else
    rest.ss_flags = SS_DISABLE;
  if (ours && onstack_sys_call2(SYS_sigaltstack, (long)&rest, 0) < 0) {
    /* It is too little for this process's signal frames (AMX). */
    rest.ss_flags = SS_DISABLE;
    onstack_sys_call2(SYS_sigaltstack, (long)&rest, 0);
  }
  action_deliver(to->previous, to->signal, to->info, to->context);
  if (ours) onstack_sys_call2(SYS_sigaltstack, (long)&whole, 0);
}

/* Calls action_deliver_here(to, our stack pointer) on the stack that ends at `sp`. */
void onstack_action_switch_stack(const action_delivery *to, uint64_t sp) __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
        ".type onstack_action_switch_stack, %function\n"
        "onstack_action_switch_stack:\n.cfi_startproc\n" ONSTACK_ARCH_CALL_ON_STACK(
            "action_deliver_here") ".cfi_endproc\n.size onstack_action_switch_stack, . - "
                                   "onstack_action_switch_stack\n.popsection\n");

static ONSTACK_HANDLER_APART void action_deliver_on(uint64_t stack, const struct onstack_kernel_sigaction *previous,
                                                    int signal, siginfo_t *info, void *context) {
  const action_delivery to = {previous, info, context, signal};
  /* A newer owner that chains to us may have left open every signal but its own. */
  const onstack_kernel_sigset every = ~(onstack_kernel_sigset)0;
  onstack_kernel_sigset entered = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, &every, &entered);
  onstack_action_switch_stack(&to, stack);
  onstack_sys_sigprocmask(SIG_SETMASK, &entered, NULL);
}

/*
 * Without SA_ONSTACK the kernel would have called the owner on the interrupted stack, and it may need more than an
 * alternate stack has: one with room for 128 frames overflows the 8 KiB of a Rust thread. 0: it runs where we are.
 */
static ONSTACK_HANDLER uint64_t action_stack_for(const struct onstack_kernel_sigaction *previous, const ucontext_t *context,
                                                 uint64_t frame) {
  uint64_t sp = onstack_registers_free_below(context);
  if (previous->flags & (uint64_t)SA_ONSTACK || !action_is_on_alternate(context, frame)) return 0;
  return action_is_on_alternate(context, sp) ? 0 : sp & ~(uint64_t)15;
}

ONSTACK_HANDLER_APART void onstack_action_call(const struct onstack_kernel_sigaction *owner, int signal, siginfo_t *info,
                                               void *context) {
  uint64_t stack = action_stack_for(owner, context, (uint64_t)(uintptr_t)__builtin_frame_address(0));
  if (stack)
    action_deliver_on(stack, owner, signal, info, context);
  else
    action_deliver(owner, signal, info, context);
}

static ONSTACK_HANDLER bool action_takes_signals(onstack_previous *previous) {
  uint32_t fresh = 0;
  if (!previous || previous->action.handler == (uint64_t)(uintptr_t)SIG_DFL ||
      previous->action.handler == (uint64_t)(uintptr_t)SIG_IGN)
    return false;
  /* SA_RESETHAND: the first signal takes the handler, the rest meet SIG_DFL, which we swallow. */
  return !(previous->action.flags & (uint64_t)SA_RESETHAND) || onstack_cas(&previous->spent, &fresh, 1u);
}

static ONSTACK_HANDLER onstack_previous *action_published(const onstack_action *action, uint32_t trampoline,
                                                          uint32_t level) {
  return level < ONSTACK_ACTION_LEVELS ? onstack_observe(&action->below[trampoline].levels[level]) : NULL;
}

/*
 * What lies below a trampoline that is being installed, where it replaced something else than was expected: an owner has
 * left, and what it put back tells who comes next; or one has come. The change may end meanwhile: then what is published
 * is right. The next change by the same trampoline writes to the same place; a copy would be safe from that, and cost every
 * signal 48 bytes of a small stack, for what takes two changes between two lines here.
 */
static ONSTACK_HANDLER_APART onstack_previous *action_replaced(int signal, uint32_t trampoline, uint32_t level,
                                                               uint32_t changing) {
  onstack_action *action = &onstack_actions[signal];
  onstack_previous *replaced = &action->replaced[trampoline];
  const uint64_t was = onstack_load_relaxed(&replaced->action.handler), expected = onstack_load_relaxed(&action->expected);
  onstack_fence_observe();
  if (onstack_load_relaxed(&action->changing) != changing || was == expected)
    return action_published(action, trampoline, level);
  const onstack_copy *copy = &onstack_copy_self;
  for (uint32_t i = 0; copy; copy = onstack_copy_other(&onstack_copy_self, i++)) {
    const uint32_t theirs = onstack_trampoline_at(copy, was);
    if (theirs < ONSTACK_TRAMPOLINES) return action_published(onstack_copy_action(copy, signal), theirs, level);
  }
  if (level == 0) return replaced;
  /* Set right already, and published, it is a level of its own there. */
  const onstack_previous *newest = action_published(action, trampoline, 0);
  return action_published(action, trampoline, newest && newest->action.handler == was ? level : level - 1);
}

ONSTACK_HANDLER onstack_previous *onstack_action_below(int signal, uint32_t trampoline, uint32_t level) {
  const onstack_action *action = &onstack_actions[signal];
  const uint32_t changing = onstack_observe(&action->changing);
  if (onstack_action_changes(changing) == trampoline) return action_replaced(signal, trampoline, level, changing);
  return action_published(action, trampoline, level);
}

/* To the next level; false: there is none. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER bool action_pass(int signal, siginfo_t *info, void *context,
                                                                              uint32_t trampoline) {
  onstack_signal_counters *counts = &onstack_signal_counts[signal];
  const uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  bool first;
  uint32_t place = action_find_flight(context, frame);
  uint32_t level = action_enter_flight(place, trampoline, &first);
  onstack_previous *previous = onstack_action_below(signal, trampoline, level);
  bool takes = action_takes_signals(previous);
  /* Counted once for each signal. */
  if (first) onstack_add_relaxed(takes ? &counts->forwarded : &counts->swallowed, (uint64_t)1);
  if (first && takes && info->si_code == SI_TIMER) onstack_add_relaxed(&counts->forwarded_timer, (uint64_t)1);
  uint64_t stack = takes ? action_stack_for(&previous->action, context, frame) : 0;
  if (stack && place < ACTION_IN_FLIGHT) action_in_flight[place].switched = true;
  if (stack)
    action_deliver_on(stack, &previous->action, signal, info, context);
  else if (takes)
    action_deliver(&previous->action, signal, info, context);
  if (stack && place < ACTION_IN_FLIGHT) action_in_flight[place].switched = false;
  action_leave_flight(place, trampoline, level);
  return previous || first;
}

/* Another copy's tick? */
static ONSTACK_HANDLER_APART bool action_offer(int signal, siginfo_t *info, void *context) {
  const onstack_copy *other;
  for (uint32_t i = 0; (other = onstack_copy_other(&onstack_copy_self, i)); i++)
    if (other->take(signal, info, context)) return true;
  return false;
}

/* The frames above the owner's handler are on its signal stack too: one function, what else is needed has returned. */
ONSTACK_HANDLER_APART void onstack_action_forward(int signal, siginfo_t *info, void *context, uint32_t trampoline) {
  if (onstack_load_relaxed(&onstack_copy_self.others[0]) && action_offer(signal, info, context)) return;
  if (!action_pass(signal, info, context, trampoline))
    onstack_add_relaxed(&onstack_signal_counts[signal].looped, (uint64_t)1);
}
