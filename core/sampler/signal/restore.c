/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/on_top.h"

#include "sampler/signal/action.h"

#include "sampler/signal/change.h"
#include "sampler/signal/registry.h"
#include "sampler/signal/forward.h"
#include "sampler/threads/timer.h"

#include <signal.h>

/*
 * Marks our passing SIG_IGN, so that a child can tell it from a host's: the kernel keeps the mask of an ignored signal,
 * where it means nothing, but for the two signals that cannot be blocked.
 */
static onstack_kernel_sigset restore_mark(const onstack_action_owner *owner) {
  return (uint64_t)(uintptr_t)owner & ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP));
}

/* What is to be there without us: the newest owner below us. A one-shot that is spent would be SIG_DFL by now, and what the
   stand-in stands for may be another handler by now. */
static struct onstack_kernel_sigaction restore_next_owner(int signal, uint32_t trampoline) {
  const onstack_previous *previous = onstack_action_below(signal, trampoline, 0);
  struct onstack_kernel_sigaction next = previous->action;
  if (!onstack_action_is_unowned(&next)) onstack_action_set_restart(&next, onstack_action_restarts(&next));
  if (onstack_load_relaxed(&previous->spent)) next.handler = onstack_action_default;
  return next;
}

/*
 * Whoever came, or left, at the very moment of the last stop, where `given` stands now. An owner stays, below a trampoline
 * of ours that passes on: put back as it was, it could have left meanwhile, and the next one would find it installed. Where
 * the trampoline in between is somebody's previous action, it can be made to stand for that (onstack_action_reinstall). SIG_DFL
 * and SIG_IGN need no trampoline: they are what has to be there, by way of SIG_IGN (restore_previous).
 */
static void restore_step_down(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *was,
                              const struct onstack_kernel_sigaction *given) {
  int result;
  const uint32_t trampoline = onstack_action_trampoline_for_late(signal, owner, was, &result);
  if (trampoline >= ONSTACK_TRAMPOLINES) {
    onstack_change_exchange(signal, was, given);
    return;
  }
  const struct onstack_kernel_sigaction next = restore_next_owner(signal, trampoline);
  if (!onstack_action_is_unowned(&next)) {
    onstack_action_reinstall(signal, owner, trampoline, *given);
    return;
  }
  struct onstack_kernel_sigaction ignore = next;
  ignore.handler = onstack_action_ignore;
  onstack_change_exchange(signal, &ignore, given);
  if (next.handler == onstack_action_default) onstack_change_exchange(signal, &next, &ignore);
}

/* At the last stop, in place of `now`, which is ours or what we have put there. True if `to` stands. */
static bool restore_give(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *to,
                         const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction was;
  if (onstack_sys_sigaction(signal, to, &was) < 0 || onstack_action_is_same(&was, now)) return true;
  restore_step_down(signal, owner, &was, to);
  onstack_dekker_store(&onstack_actions[signal].undisputed, 0u);
  onstack_dekker_store(&onstack_actions[signal].running, 0u);
  return false;
}

/*
 * Back to the previous action. Where that is SIG_DFL, a pending tick would kill the process ("Profiling timer expired"):
 * setting SIG_IGN discards what is pending for every thread (POSIX, signal concepts, 2.4.3), so it goes first. Only
 * then: elsewhere that moment would eat another profiler's ticks.
 */
static void restore_previous(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *previous,
                             const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction ignore = *previous;
  if (previous->handler != onstack_action_default) {
    restore_give(signal, owner, previous, now);
    return;
  }
  ignore.handler = onstack_action_ignore;
  ignore.mask = restore_mark(owner);
  if (restore_give(signal, owner, &ignore, now)) restore_give(signal, owner, previous, &ignore);
}

/* Who came, or left, at the very moment in which the other copy was installed lies below that, as it should have been. */
static void restore_hand_over_newcomer(int signal, onstack_action_owner *owner, onstack_action *theirs) {
  const onstack_action *action = &onstack_actions[signal];
  const struct onstack_kernel_sigaction was = theirs->replaced[theirs->current].action;
  int result;
  const uint32_t trampoline = onstack_action_trampoline_for_late(signal, owner, &was, &result);
  if (trampoline >= ONSTACK_TRAMPOLINES)
    onstack_change_exchange(signal, &was, &theirs->ours);
  else if (onstack_action_is_unowned(&was))
    onstack_trampolines_forget(theirs, &action->below[trampoline]);
  else
    onstack_trampoline_publish(theirs, theirs->current, &action->below[trampoline]);
}

/*
 * To another copy that runs; false: there is none. Owners may have come and gone while we stood above it, and it could
 * not see them: it is installed by a trampoline of its own that stands for what lies below us now. All that is written
 * of another copy's is under the lock that we share, and read by its handlers as one would read it that it wrote itself.
 */
static bool restore_hand_over(int signal, onstack_action_owner *owner, uint32_t trampoline,
                              const struct onstack_kernel_sigaction *now) {
  const onstack_action *action = &onstack_actions[signal];
  const onstack_copy *copy = onstack_copies_running(signal);
  if (!copy) return false;
  onstack_action *theirs = onstack_copy_action(copy, signal);
  struct onstack_kernel_sigaction next = theirs->ours;
  next.flags &= ~(uint64_t)SA_NODEFER; /* whether its frames fit is its own to say, at its next look */
  next.mask |= ONSTACK_SIGBIT(signal);
  const uint32_t chosen = onstack_trampoline_choose(theirs, &action->below[trampoline]);
  next.handler = onstack_trampoline_address(copy, chosen);
  onstack_trampoline_use(theirs, chosen);
  theirs->ours = next;
  const struct onstack_kernel_sigaction *was = onstack_change_begin(theirs, chosen, now);
  if (onstack_sys_sigaction(signal, &next, &theirs->replaced[chosen].action) == 0 && !onstack_action_is_same(was, now))
    restore_hand_over_newcomer(signal, owner, theirs);
  onstack_change_end(theirs);
  if (action->visited) theirs->visited = 1;
  onstack_action_check_dispute(signal, theirs, theirs->current);
  return true;
}

static void restore_next(int signal, onstack_action_owner *owner, uint32_t trampoline,
                         const struct onstack_kernel_sigaction *now) {
  const onstack_action *action = &onstack_actions[signal];
  struct onstack_kernel_sigaction next = restore_next_owner(signal, trampoline);
  /* Go's timers tick on for some 10 ms after its profile, and over SIG_DFL the first of them kills. Go itself leaves
     SIG_IGN behind for that reason (golang#19320): so do we, where such an owner has been. */
  if (action->visited && next.handler == onstack_action_default) next.handler = onstack_action_ignore;
  if (owner->restore == ONSTACK_RESTORE_IGNORE) next.handler = onstack_action_ignore;
  restore_previous(signal, owner, &next, now);
}

void onstack_action_leave(int signal, onstack_action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  uint32_t trampoline = action->current;
  struct onstack_kernel_sigaction now;
  onstack_copy *copy = NULL;
  if (onstack_load_relaxed(&onstack_timers_left) > 0 || onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  const bool mine = onstack_action_is_ours(&now);
  if (!mine) onstack_copies_meet(now.handler, &copy);
  if (!mine && (!copy || onstack_copy_runs(copy, signal))) return;
  if (copy || onstack_trampoline_at(&onstack_copy_self, now.handler) != trampoline)
    trampoline = onstack_action_put_back(signal, &now, copy);
  action->current = trampoline; /* for the child of a fork that begins before the next line has ended */
  if (!restore_hand_over(signal, owner, trampoline, &now)) restore_next(signal, owner, trampoline, &now);
}

bool onstack_action_ends_in_default(int signal) {
  const onstack_action *action = &onstack_actions[signal];
  return onstack_action_owners[signal].sessions == 1 && !action->visited &&
         restore_next_owner(signal, action->current).handler == onstack_action_default;
}

/*
 * The kernel copies the actions before it copies the memory (kernel/fork.c, copy_process), so a start or stop of another
 * thread may lie between the two: what our memory says about sessions need not fit the action that the child has. Only
 * the action itself is asked. A child has neither timers nor pending signals, so SIG_DFL can come back at once.
 */
static void restore_after_fork(int signal, onstack_action_owner *owner) {
  struct onstack_kernel_sigaction now;
  if (!owner->used || onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  if (!onstack_action_is_ours(&now) && !(now.handler == onstack_action_ignore && now.mask == restore_mark(owner))) return;
  const uint32_t installed = onstack_trampoline_at(&onstack_copy_self, now.handler);
  const struct onstack_kernel_sigaction next =
      restore_next_owner(signal, installed < ONSTACK_TRAMPOLINES ? installed : onstack_actions[signal].current);
  onstack_sys_sigaction(signal, &next, NULL);
}

/* The parent may have been in the middle of a change: who had come just then lies below that trampoline, as it will there. */
static void restore_finish_change(int signal, onstack_action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  const uint32_t trampoline = onstack_action_changes(onstack_load_relaxed(&action->changing));
  int result;
  if (trampoline >= ONSTACK_TRAMPOLINES) return;
  const struct onstack_kernel_sigaction was = action->replaced[trampoline].action;
  if (was.handler != action->expected) {
    action->current = trampoline;
    const uint32_t right = onstack_action_trampoline_for_late(signal, owner, &was, &result);
    if (right < ONSTACK_TRAMPOLINES) onstack_trampoline_publish(action, trampoline, &action->below[right]);
  }
  onstack_change_end(action);
}

/* Nothing is written that is so already: each page that is written to is copied, in each child. */
static void restore_clear(uint32_t *word) {
  if (onstack_load_relaxed(word) != 0) onstack_dekker_store(word, 0u);
}

void onstack_action_after_fork(void) {
  onstack_copies_after_fork();
  onstack_action_forget_flights();
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++) {
    restore_clear(&onstack_action_owners[signal].sessions);
    restore_clear(&onstack_action_owners[signal].returns);
    restore_clear(&onstack_actions[signal].undisputed);
    restore_clear(&onstack_actions[signal].running);
    restore_finish_change(signal, &onstack_action_owners[signal]);
    restore_after_fork(signal, &onstack_action_owners[signal]);
  }
}
