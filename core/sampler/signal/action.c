/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * previous action" includes both. No change is made blindly: the kernel says with each what was there, and an
 * owner that another thread has installed since the look is not lost.
 */
#include "sampler/signal/action.h"

#include "platform/process.h"
#include "sampler/signal/change.h"
#include "sampler/signal/copy.h"
#include "sampler/signal/own_threads.h"
#include "sampler/signal/owners.h"
#include "sampler/threads/timer.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define ACTION_FOLLOW_TRIES 100
#define OWN_CLOSE_NS 100000000u /* for all of them together */

int onstack_action_check_signal(int signal) {
  static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD};
  if (signal < 1 || signal >= ONSTACK_SIGNALS) return ONSTACK_E_SIGNAL;
  if (signal >= 32 && signal < SIGRTMIN) return ONSTACK_E_SIGNAL; /* libc's own: cancellation, setxid, timers */
  for (size_t i = 0; i < ONSTACK_COUNT_OF(refused); i++)
    if (signal == refused[i]) return ONSTACK_E_SIGNAL;
  return 0;
}

static void action_reset_counters(onstack_signal_counters *counts) {
  onstack_store_relaxed(&counts->forwarded, (uint64_t)0);
  onstack_store_relaxed(&counts->forwarded_timer, (uint64_t)0);
  onstack_store_relaxed(&counts->swallowed, (uint64_t)0);
  onstack_store_relaxed(&counts->late, (uint64_t)0);
  onstack_store_relaxed(&counts->looped, (uint64_t)0);
}

/* The first session finds somebody's action, a copy's, or ours, put back by an owner whose previous action it was. */
static int action_begin(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *previous,
                        const onstack_copy *copy) {
  onstack_action *action = &onstack_actions[signal];
  uint32_t trampoline = onstack_trampoline_at(&onstack_copy_self, previous->handler);
  action->visited = 0;
  if (copy || trampoline < ONSTACK_TRAMPOLINES) {
    const bool runs = copy && onstack_copy_runs(copy, signal);
    trampoline = onstack_action_put_back(signal, previous, copy);
    if (runs) action->visited = onstack_copy_action(copy, signal)->visited;
  } else {
    const onstack_below below = {{onstack_action_keep(previous), NULL, NULL}};
    if (!below.levels[0]) return -ENOMEM;
    trampoline = onstack_trampoline_choose(action, &below);
  }
  /* What a pass-through has forwarded since the last stop counts on. */
  if (!onstack_action_is_ours(previous)) action_reset_counters(&onstack_signal_counts[signal]);
  onstack_publish(&owner->used, 1u);
  int result = onstack_action_reinstall(signal, owner, trampoline, *previous);
  if (result == 0) return 0;
  onstack_dekker_store(&action->undisputed, 0u);
  onstack_dekker_store(&action->running, 0u);
  struct onstack_kernel_sigaction now;
  if (onstack_sys_sigaction(signal, NULL, &now) == 0 && onstack_action_is_ours(&now))
    onstack_change_exchange(signal, previous, &now);
  return result;
}

/* One more session: SA_ONSTACK is what all get when one wants it. Where a newer owner stands, the next look does it. */
static void action_join(int signal, onstack_action_owner *owner, bool on_stack) {
  struct onstack_kernel_sigaction now;
  onstack_copy *locked = onstack_copies_lock(true);
  owner->sessions++;
  owner->on_stack |= on_stack;
  if (onstack_action_is_outdated(signal, owner) && onstack_sys_sigaction(signal, NULL, &now) == 0 &&
      onstack_action_is_same(&now, &onstack_actions[signal].ours))
    onstack_action_reinstall(signal, owner, onstack_actions[signal].current, now);
  onstack_copies_unlock(locked);
}

int onstack_action_acquire(int signal, bool on_stack, onstack_restore restore) {
  onstack_action_owner *owner = &onstack_action_owners[signal];
  struct onstack_kernel_sigaction previous;
  onstack_copy *locked, *copy;
  if (owner->sessions > 0) {
    action_join(signal, owner, on_stack);
    return 0;
  }
  for (;;) {
    locked = onstack_copies_lock(true);
    int result = onstack_sys_sigaction(signal, NULL, &previous);
    if (result == 0) result = onstack_action_meet(&previous, &copy);
    if (result == 0 && !onstack_copies_outgrew(locked)) break;
    onstack_copies_unlock(locked);
    if (result < 0) return result;
  }
  owner->on_stack = on_stack;
  owner->restore = restore;
  owner->returns = 0;
  int result = action_begin(signal, owner, &previous, copy);
  if (result == 0) owner->sessions = 1;
  onstack_copies_unlock(locked);
  return result;
}

/* The stand-in itself, or ours above it, with the flag that it has to have now. */
static void action_follow_host(int signal, const struct onstack_kernel_sigaction *now, bool ours) {
  onstack_action *action = &onstack_actions[signal];
  struct onstack_kernel_sigaction to = *now;
  const struct onstack_kernel_sigaction *below = ours ? &action->below[action->current].levels[0]->action : now;
  if (onstack_own_stands_in.handler == 0 || below->handler != onstack_own_stands_in.handler) return;
  onstack_action_set_restart(&to, onstack_action_restarts(below));
  if (to.flags == now->flags) return;
  if (ours) action->ours = to;
  onstack_change_exchange(signal, &to, now);
}

void onstack_action_follow_host(int signal) {
  struct onstack_kernel_sigaction now;
  onstack_copy *locked = onstack_copies_lock(false);
  /* Who holds it may be the thread that this signal handler has interrupted. */
  for (int i = 0; i < ACTION_FOLLOW_TRIES && !locked; i++) {
    onstack_sys_sleep(50000);
    locked = onstack_copies_lock(false);
  }
  if (!locked) return;
  const onstack_action *action = &onstack_actions[signal];
  if (onstack_sys_sigaction(signal, NULL, &now) == 0)
    action_follow_host(signal, &now,
                       onstack_action_owners[signal].sessions > 0 && onstack_action_is_same(&now, &action->ours));
  onstack_copies_unlock(locked);
}

static bool action_look(int signal, onstack_action_owner *owner, const onstack_copy *locked) {
  struct onstack_kernel_sigaction now;
  onstack_copy *copy = NULL;
  if (onstack_sys_sigaction(signal, NULL, &now) < 0) return false;
  if (onstack_action_is_same(&now, &onstack_actions[signal].ours)) {
    if (onstack_action_is_outdated(signal, owner))
      onstack_action_reinstall(signal, owner, onstack_actions[signal].current, now);
    else
      action_follow_host(signal, &now, true);
    return false;
  }
  /* A Go runtime that is loaded late asks for it on our action (runtime/os_linux.go, setsigstack), and without it our
     frames would lie in the heap, below a goroutine's stack: whatever the session's option said. */
  if (now.flags & (uint64_t)SA_ONSTACK) owner->on_stack = true;
  if (onstack_action_meet(&now, &copy) < 0 || onstack_copies_outgrew(locked)) return true;
  /* A copy that runs hands our ticks to us; to displace each other would never end. */
  if (copy && onstack_copy_runs(copy, signal)) return false;
  uint32_t trampoline = onstack_action_trampoline_for(signal, owner, &now, copy);
  if (trampoline < ONSTACK_TRAMPOLINES) onstack_action_reinstall(signal, owner, trampoline, now);
  return true;
}

bool onstack_action_tend(int signal) {
  onstack_action_owner *owner = &onstack_action_owners[signal];
  if (owner->sessions == 0) return false;
  onstack_copy *locked = onstack_copies_lock(false); /* else at the next look */
  if (!locked) return true;
  const bool displaced = action_look(signal, owner, locked);
  onstack_copies_unlock(locked);
  return displaced;
}

void onstack_action_end_back_off(int signal) { onstack_action_owners[signal].returns = 0; }

void onstack_action_release(int signal) {
  onstack_action_owner *owner = &onstack_action_owners[signal];
  if (owner->sessions > 1) {
    owner->sessions--;
    return;
  }
  onstack_copy *locked = onstack_copies_lock(true);
  owner->sessions = 0;
  onstack_dekker_store(&onstack_actions[signal].undisputed, 0u);
  onstack_own_wait_closed(signal); /* a foreign handler, or SIG_DFL, is not to be met on a thread of ours */
  onstack_dekker_store(&onstack_actions[signal].running, 0u); /* before the look at who is on top */
  onstack_action_leave(signal, owner);
  onstack_copies_unlock(locked);
}

void onstack_action_block(uint64_t *old_mask) {
  onstack_kernel_sigset set = 0;
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++)
    if (onstack_load_relaxed(&onstack_action_owners[signal].sessions) > 0) set |= ONSTACK_SIGBIT(signal);
  onstack_sys_sigprocmask(SIG_BLOCK, &set, old_mask);
}

void onstack_action_unblock(uint64_t old_mask) { onstack_sys_sigprocmask(SIG_SETMASK, &old_mask, NULL); }

/* ---- our own threads (own_threads.h) ---- */

void onstack_own_wait_closed(int32_t signal) {
  const int32_t self = onstack_sys_gettid();
  const uint64_t until = onstack_monotonic_ns() + OWN_CLOSE_NS;
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    const onstack_own_thread *own = &onstack_own_threads[i];
    if (onstack_load_relaxed(&own->tid) == self) onstack_own_close();
    while (onstack_dekker_load(&own->open) == signal && onstack_monotonic_ns() < until) onstack_sys_sleep(50000);
  }
}

bool onstack_own_forget_killed(void) {
  static int32_t killed_in; /* the process where one has been killed: a child of fork has others */
  const int32_t process = onstack_sys_getpid();
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    int32_t tid = onstack_load_relaxed(&onstack_own_threads[i].tid);
    if (tid == 0 || onstack_sys_call3(SYS_tgkill, process, tid, 0) != -ESRCH) continue;
    if (onstack_cas(&onstack_own_threads[i].tid, &tid, 0)) onstack_store_relaxed(&killed_in, process);
  }
  return onstack_load_relaxed(&killed_in) == process;
}

/* ---- the last stop, and the child of a fork ---- */

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
