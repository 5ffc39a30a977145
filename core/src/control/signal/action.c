/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * action that start found" includes both. No change is made blindly: the kernel says with each what was there, and an
 * owner that another thread has installed since the look is not lost.
 */
#include "control/signal/action.h"

#include "control/signal/registry.h"
#include "control/signal/install.h"
#include "control/signal/nesting_fit.h"
#include "control/tick/own_threads_wait.h"
#include "control/signal/trampolines.h"
#include "handler/tick/slot.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define ACTION_FOLLOW_TRIES 100

typedef struct action_owner {
  uint32_t sessions; /* that use it */
  uint32_t used;     /* ours was installed once: in the child of a fork the action may be ours */
  uint32_t returns;  /* how often in a row we went back on top */
  bool on_stack;
  onstack_restore restore; /* of the session that installed it */
} action_owner;

static action_owner action_owners[ONSTACK_SIGNALS];

/*
 * Found actions are kept for ever, because a handler may be reading one; equal ones share an entry, so only programs
 * that install ever new handler functions could fill the table. Then a newer owner is left where it is.
 */
#define ACTION_FOUND 128u
static onstack_found action_found[ACTION_FOUND];
static uint32_t action_found_count;

/* Two handlers that both insist on being on top would go on for ever: after so many returns we stay below. */
#define ACTION_RETURNS 8u

static const uint64_t action_default = (uint64_t)(uintptr_t)SIG_DFL;
static const uint64_t action_ignore = (uint64_t)(uintptr_t)SIG_IGN;

static bool action_is_ours(const struct onstack_kernel_sigaction *action) {
  return onstack_trampoline_at(&onstack_copy_self, action->handler) < ONSTACK_TRAMPOLINES;
}

static bool action_is_unowned(const struct onstack_kernel_sigaction *action) {
  return action->handler == action_default || action->handler == action_ignore;
}

/* As onstack_copies_meet, but that our own copy is none. */
static int action_meet(const struct onstack_kernel_sigaction *now, onstack_copy **copy) {
  *copy = NULL;
  return action_is_ours(now) ? 0 : onstack_copies_meet(now->handler, copy);
}

static bool action_is_same(const struct onstack_kernel_sigaction *a, const struct onstack_kernel_sigaction *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

/*
 * In place of `now`; who came at that very moment is put back. It may have left again meanwhile, or another one may have
 * come: so until what a change of ours replaced is what we had put there last.
 */
static void action_exchange(int signal, const struct onstack_kernel_sigaction *to,
                            const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction put = *to, expected = *now, was;
  while (onstack_sys_sigaction(signal, &put, &was) == 0 && !action_is_same(&was, &expected)) {
    expected = put;
    put = was;
  }
}

/* The table's entry for an action, fresh (a one-shot not yet spent); NULL when the table is full. */
static onstack_found *action_keep(const struct onstack_kernel_sigaction *action) {
  onstack_found *kept = NULL;
  for (uint32_t i = 0; i < action_found_count && !kept; i++)
    if (action_is_same(&action_found[i].action, action)) kept = &action_found[i];
  if (!kept && action_found_count < ACTION_FOUND) {
    kept = &action_found[action_found_count++];
    kept->action = *action;
  }
  if (kept) onstack_store_relaxed(&kept->spent, 0u);
  return kept;
}

int onstack_action_check_signal(int signal) {
  static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD};
  if (signal < 1 || signal >= ONSTACK_SIGNALS) return ONSTACK_E_SIGNAL;
  if (signal >= 32 && signal < SIGRTMIN) return ONSTACK_E_SIGNAL; /* libc's own: cancellation, setxid, timers */
  for (size_t i = 0; i < ONSTACK_COUNT_OF(refused); i++)
    if (signal == refused[i]) return ONSTACK_E_SIGNAL;
  return 0;
}

/* Whether threads of ours may take the signal: a handler of the host's is never to run on one. */
static void action_check_dispute(int signal, onstack_action *action, uint32_t trampoline) {
  const struct onstack_kernel_sigaction *below = &action->below[trampoline].levels[0]->action;
  const bool unowned = action_is_unowned(below) || below->handler == onstack_own_stands_in.handler;
  const bool undisputed = unowned && !action->visited;
  onstack_dekker_store(&action->undisputed, (uint32_t)undisputed);
  /* Nor on one of a copy that stands below, whose own look does not come this far. */
  for (uint32_t i = 0; !undisputed && onstack_copy_other(&onstack_copy_self, i); i++)
    onstack_dekker_store(&onstack_copy_action(onstack_copy_other(&onstack_copy_self, i), signal)->undisputed, 0u);
}

/* Under the lock of all copies. The count tells a handler that what it has read belongs to a change that is over. */
static void action_set_changing(onstack_action *action, uint32_t changing) {
  const uint32_t count = (onstack_load_relaxed(&action->changing) & ~0xffu) + 0x100u;
  onstack_publish(&action->changing, count | changing); /* pairs with action_replaced */
}

/* What is published stands from here on, as far as a handler has not taken it already: a one-shot has had its signal. */
static void action_change_end(onstack_action *action) {
  const uint32_t trampoline = onstack_action_changes(onstack_load_relaxed(&action->changing));
  if (trampoline >= ONSTACK_TRAMPOLINES) return;
  onstack_found *replaced = &action->replaced[trampoline], *newest = action->below[trampoline].levels[0];
  const bool spent = onstack_exchange(&replaced->spent, 1u) != 0;
  if (spent && action_is_same(&newest->action, &replaced->action)) onstack_store_relaxed(&newest->spent, 1u);
  action_set_changing(action, 0);
}

/* Until the end of the change, handlers that come in by that trampoline go by what the kernel writes to where this points. */
static struct onstack_kernel_sigaction *action_change_begin(onstack_action *action, uint32_t trampoline,
                                                            const struct onstack_kernel_sigaction *now) {
  action_change_end(action);
  onstack_fence_publish();
  onstack_store_relaxed(&action->expected, now->handler);
  action->replaced[trampoline] = (onstack_found){*now, 0};
  action_set_changing(action, trampoline + 1);
  return &action->replaced[trampoline].action;
}

/* The previous handler's choice about EINTR stays as it was; over SIG_DFL and SIG_IGN system calls restart. */
static bool action_restarts(const struct onstack_kernel_sigaction *below) {
  if (below->handler == onstack_own_stands_in.handler) return !onstack_dekker_load(&onstack_own_stands_in.interrupts);
  return action_is_unowned(below) || below->flags & (uint64_t)SA_RESTART;
}

static void action_set_restart(struct onstack_kernel_sigaction *action, bool restarts) {
  action->flags = restarts ? action->flags | (uint64_t)SA_RESTART : action->flags & ~(uint64_t)SA_RESTART;
}

/* A start asks before its session is counted. */
static bool action_may_be_open(int signal, const action_owner *owner) {
  return owner->on_stack && onstack_nesting_fits(signal, owner->sessions > 0 ? owner->sessions : 1);
}

/* Installs ours by that trampoline, what lies below which is published already. *was: what was there. */
static int action_install(int signal, const action_owner *owner, uint32_t trampoline,
                          const struct onstack_kernel_sigaction *now, struct onstack_kernel_sigaction *was) {
  onstack_action *action = &onstack_actions[signal];
  const struct onstack_kernel_sigaction *below = &action->below[trampoline].levels[0]->action;
  struct onstack_kernel_sigaction ours;
  int flags = SA_SIGINFO | (owner->on_stack ? SA_ONSTACK : 0);
  if (action_restarts(below)) flags |= SA_RESTART;
  if (action_may_be_open(signal, owner)) {
    flags |= SA_NODEFER;
    onstack_nesting_open();
  }
  struct onstack_kernel_sigaction *replaced = action_change_begin(action, trampoline, now);
  int result =
      onstack_install(signal, onstack_trampoline_address(&onstack_copy_self, trampoline), flags, now, &ours, replaced);
  if (result < 0) return result;
  *was = *replaced;
  onstack_trampoline_use(action, trampoline);
  action->ours = ours;
  action_check_dispute(signal, action, trampoline);
  onstack_dekker_store(&action->running, 1u);
  return 0;
}

static void action_reset_counters(onstack_action *action) {
  onstack_store_relaxed(&action->forwarded, (uint64_t)0);
  onstack_store_relaxed(&action->forwarded_timer, (uint64_t)0);
  onstack_store_relaxed(&action->swallowed, (uint64_t)0);
  onstack_store_relaxed(&action->late, (uint64_t)0);
  onstack_store_relaxed(&action->looped, (uint64_t)0);
}

/* What lies below another copy lies below us: it is never its handler that we pass signals on to. */
static uint32_t action_below_copy(int signal, const onstack_copy *copy, uint64_t handler) {
  const onstack_action *theirs = onstack_copy_action(copy, signal);
  const onstack_below below = theirs->below[onstack_trampoline_at(copy, handler)];
  if (theirs->visited) onstack_actions[signal].visited = 1;
  return onstack_trampoline_choose(&onstack_actions[signal], &below);
}

/*
 * An owner has put back what it had found: one of our trampolines, with flags and mask of its own perhaps, or one of a
 * copy that has stopped since. What lay below that lies below us again. Returns the trampoline that stands for it.
 */
static uint32_t action_put_back(int signal, const struct onstack_kernel_sigaction *now, const onstack_copy *copy) {
  const uint32_t trampoline = onstack_trampoline_at(&onstack_copy_self, now->handler);
  onstack_actions[signal].visited = 1;
  if (copy) return action_below_copy(signal, copy, now->handler);
  onstack_trampoline_put_back(&onstack_actions[signal], trampoline);
  return trampoline;
}

/* A newcomer, no copy, stands where ours was; the trampoline for going back on top of it, or ONSTACK_TRAMPOLINES. */
static uint32_t action_go_over(int signal, action_owner *owner, const struct onstack_kernel_sigaction *now) {
  onstack_action *action = &onstack_actions[signal];
  onstack_found *found = owner->returns < ACTION_RETURNS ? action_keep(now) : NULL;
  if (!found) return ONSTACK_TRAMPOLINES;
  owner->returns++;
  onstack_below below = {{found, NULL, NULL}};
  if (action_is_unowned(now)) {
    onstack_trampolines_forget(action, &below);
  } else {
    below = onstack_below_add(&action->below[action->current], found);
    action->visited = 1;
  }
  return onstack_trampoline_choose(action, &below);
}

/* The trampoline for going on top of what stands where ours was, or ONSTACK_TRAMPOLINES. */
static uint32_t action_answer(int signal, action_owner *owner, const struct onstack_kernel_sigaction *now,
                              const onstack_copy *copy) {
  return action_is_ours(now) || copy ? action_put_back(signal, now, copy) : action_go_over(signal, owner, now);
}

/* The same for whoever came at the very moment of a change. *result: 0, or why nothing stands for it. */
static uint32_t action_answer_late(int signal, action_owner *owner, const struct onstack_kernel_sigaction *was,
                                   int *result) {
  onstack_copy *copy;
  *result = action_meet(was, &copy);
  return *result < 0 ? ONSTACK_TRAMPOLINES : action_answer(signal, owner, was, copy);
}

/*
 * On top of `now`, by that trampoline; then of whoever came at that very moment, unless it is one that we stay below.
 * Who has found our trampoline by then has found what stands below the next one.
 */
static int action_reinstall(int signal, action_owner *owner, uint32_t trampoline, struct onstack_kernel_sigaction now) {
  onstack_action *action = &onstack_actions[signal];
  for (;;) {
    struct onstack_kernel_sigaction was;
    if (onstack_trampoline_at(&onstack_copy_self, now.handler) == trampoline)
      trampoline = onstack_trampoline_another(action, trampoline);
    int result = action_install(signal, owner, trampoline, &now, &was);
    if (result < 0 || action_is_same(&was, &now)) return result;
    trampoline = action_answer_late(signal, owner, &was, &result);
    if (trampoline == action->current) return 0;
    if (trampoline >= ONSTACK_TRAMPOLINES) return action_exchange(signal, &was, &action->ours), result;
    onstack_trampoline_publish(action, action->current, &action->below[trampoline]);
    now = action->ours;
  }
}

static int action_reinstall_on_top(int signal, action_owner *owner, uint32_t trampoline,
                                   struct onstack_kernel_sigaction now) {
  int result = action_reinstall(signal, owner, trampoline, now);
  action_change_end(&onstack_actions[signal]);
  return result;
}

/* The first session finds somebody's action, a copy's, or ours, put back by an owner that had found it. */
static int action_begin(int signal, action_owner *owner, const struct onstack_kernel_sigaction *found,
                        const onstack_copy *copy) {
  onstack_action *action = &onstack_actions[signal];
  uint32_t trampoline = onstack_trampoline_at(&onstack_copy_self, found->handler);
  action->visited = 0;
  if (copy || trampoline < ONSTACK_TRAMPOLINES) {
    const bool runs = copy && onstack_copy_runs(copy, signal);
    trampoline = action_put_back(signal, found, copy);
    if (runs) action->visited = onstack_copy_action(copy, signal)->visited;
  } else {
    const onstack_below below = {{action_keep(found), NULL, NULL}};
    if (!below.levels[0]) return -ENOMEM;
    trampoline = onstack_trampoline_choose(action, &below);
  }
  /* What a pass-through has forwarded since the last stop counts on. */
  if (!action_is_ours(found)) action_reset_counters(action);
  onstack_publish(&owner->used, 1u);
  int result = action_reinstall_on_top(signal, owner, trampoline, *found);
  if (result == 0) return 0;
  onstack_dekker_store(&action->undisputed, 0u);
  onstack_dekker_store(&action->running, 0u);
  struct onstack_kernel_sigaction now;
  if (onstack_sys_sigaction(signal, NULL, &now) == 0 && action_is_ours(&now)) action_exchange(signal, found, &now);
  return result;
}

/* Ours, as it is installed, is not what it is to be: with the flags of now. */
static bool action_is_outdated(int signal, const action_owner *owner) {
  const uint64_t flags = onstack_actions[signal].ours.flags;
  return (owner->on_stack && !(flags & (uint64_t)SA_ONSTACK)) ||
         action_may_be_open(signal, owner) != ((flags & (uint64_t)SA_NODEFER) != 0);
}

/* One more session: SA_ONSTACK is what all get when one wants it. Where a newer owner stands, the next look does it. */
static void action_join(int signal, action_owner *owner, bool on_stack) {
  struct onstack_kernel_sigaction now;
  onstack_copy *locked = onstack_copies_lock(true);
  owner->sessions++;
  owner->on_stack |= on_stack;
  if (action_is_outdated(signal, owner) && onstack_sys_sigaction(signal, NULL, &now) == 0 &&
      action_is_same(&now, &onstack_actions[signal].ours))
    action_reinstall_on_top(signal, owner, onstack_actions[signal].current, now);
  onstack_copies_unlock(locked);
}

int onstack_action_acquire(int signal, bool on_stack, onstack_restore restore) {
  action_owner *owner = &action_owners[signal];
  struct onstack_kernel_sigaction found;
  onstack_copy *locked, *copy;
  if (owner->sessions > 0) {
    action_join(signal, owner, on_stack);
    return 0;
  }
  for (;;) {
    locked = onstack_copies_lock(true);
    int result = onstack_sys_sigaction(signal, NULL, &found);
    if (result == 0) result = action_meet(&found, &copy);
    if (result == 0 && !onstack_copies_outgrew(locked)) break;
    onstack_copies_unlock(locked);
    if (result < 0) return result;
  }
  owner->on_stack = on_stack;
  owner->restore = restore;
  owner->returns = 0;
  int result = action_begin(signal, owner, &found, copy);
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
  action_set_restart(&to, action_restarts(below));
  if (to.flags == now->flags) return;
  if (ours) action->ours = to;
  action_exchange(signal, &to, now);
}

void onstack_action_follow_host(int signal) {
  const struct timespec pause = {0, 50000};
  struct onstack_kernel_sigaction now;
  onstack_copy *locked = onstack_copies_lock(false);
  /* Who holds it may be the thread that this signal handler has interrupted. */
  for (int i = 0; i < ACTION_FOLLOW_TRIES && !locked; i++) {
    nanosleep(&pause, NULL);
    locked = onstack_copies_lock(false);
  }
  if (!locked) return;
  const onstack_action *action = &onstack_actions[signal];
  if (onstack_sys_sigaction(signal, NULL, &now) == 0)
    action_follow_host(signal, &now, action_owners[signal].sessions > 0 && action_is_same(&now, &action->ours));
  onstack_copies_unlock(locked);
}

static void action_look(int signal, action_owner *owner, const onstack_copy *locked) {
  struct onstack_kernel_sigaction now;
  onstack_copy *copy = NULL;
  if (onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  if (action_is_same(&now, &onstack_actions[signal].ours)) {
    if (action_is_outdated(signal, owner))
      action_reinstall_on_top(signal, owner, onstack_actions[signal].current, now);
    else
      action_follow_host(signal, &now, true);
    return;
  }
  /* A Go runtime that is loaded late asks for it on our action (runtime/os_linux.go, setsigstack), and without it our
     frames would lie in the heap, below a goroutine's stack: whatever the session's option said. */
  if (now.flags & (uint64_t)SA_ONSTACK) owner->on_stack = true;
  if (action_meet(&now, &copy) < 0 || onstack_copies_outgrew(locked)) return;
  /* A copy that runs hands our ticks to us; to displace each other would never end. */
  if (copy && onstack_copy_runs(copy, signal)) return;
  uint32_t trampoline = action_answer(signal, owner, &now, copy);
  if (trampoline < ONSTACK_TRAMPOLINES) action_reinstall_on_top(signal, owner, trampoline, now);
}

void onstack_action_tend(int signal) {
  action_owner *owner = &action_owners[signal];
  if (owner->sessions == 0) return;
  onstack_copy *locked = onstack_copies_lock(false); /* else at the next look */
  if (!locked) return;
  action_look(signal, owner, locked);
  onstack_copies_unlock(locked);
}

void onstack_action_calm(int signal) { action_owners[signal].returns = 0; }

/*
 * Marks our passing SIG_IGN, so that a child can tell it from a host's: the kernel keeps the mask of an ignored signal,
 * where it means nothing, but for the two signals that cannot be blocked.
 */
static onstack_kernel_sigset action_mark(const action_owner *owner) {
  return (uint64_t)(uintptr_t)owner & ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP));
}

/* What is to be there without us: the newest owner below us. A one-shot that is spent would be SIG_DFL by now, and what the
   stand-in stands for may be another handler by now. */
static struct onstack_kernel_sigaction action_next_owner(int signal, uint32_t trampoline) {
  const onstack_found *found = onstack_action_below(signal, trampoline, 0);
  struct onstack_kernel_sigaction next = found->action;
  if (!action_is_unowned(&next)) action_set_restart(&next, action_restarts(&next));
  if (onstack_load_relaxed(&found->spent)) next.handler = action_default;
  return next;
}

/*
 * Whoever came, or left, at the very moment of the last stop, where `given` stands now. An owner stays, below a trampoline
 * of ours that passes on: put back as it was, it could have left meanwhile, and the next one would find it installed. What
 * has found the trampoline in between can be told what it stands for (action_reinstall_on_top). SIG_DFL and SIG_IGN need no trampoline: they are what
 * has to be there, by way of SIG_IGN (action_restore).
 */
static void action_step_down(int signal, action_owner *owner, const struct onstack_kernel_sigaction *was,
                             const struct onstack_kernel_sigaction *given) {
  int result;
  const uint32_t trampoline = action_answer_late(signal, owner, was, &result);
  if (trampoline >= ONSTACK_TRAMPOLINES) {
    action_exchange(signal, was, given);
    return;
  }
  const struct onstack_kernel_sigaction next = action_next_owner(signal, trampoline);
  if (!action_is_unowned(&next)) {
    action_reinstall_on_top(signal, owner, trampoline, *given);
    return;
  }
  struct onstack_kernel_sigaction ignore = next;
  ignore.handler = action_ignore;
  action_exchange(signal, &ignore, given);
  if (next.handler == action_default) action_exchange(signal, &next, &ignore);
}

/* At the last stop, in place of `now`, which is ours or what we have put there. True if `to` stands. */
static bool action_give(int signal, action_owner *owner, const struct onstack_kernel_sigaction *to,
                        const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction was;
  if (onstack_sys_sigaction(signal, to, &was) < 0 || action_is_same(&was, now)) return true;
  action_step_down(signal, owner, &was, to);
  onstack_dekker_store(&onstack_actions[signal].undisputed, 0u);
  onstack_dekker_store(&onstack_actions[signal].running, 0u);
  return false;
}

/*
 * Back to the found action. Where that is SIG_DFL, a pending tick would kill the process ("Profiling timer expired"):
 * setting SIG_IGN discards what is pending for every thread (POSIX, signal concepts, 2.4.3), so it goes first. Only
 * then: elsewhere that moment would eat another profiler's ticks.
 */
static void action_restore(int signal, action_owner *owner, const struct onstack_kernel_sigaction *found,
                           const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction ignore = *found;
  if (found->handler != action_default) {
    action_give(signal, owner, found, now);
    return;
  }
  ignore.handler = action_ignore;
  ignore.mask = action_mark(owner);
  if (action_give(signal, owner, &ignore, now)) action_give(signal, owner, found, &ignore);
}

/* Who came, or left, at the very moment in which the other copy was installed lies below that, as it should have been. */
static void action_hand_over_newcomer(int signal, action_owner *owner, onstack_action *theirs) {
  const onstack_action *action = &onstack_actions[signal];
  const struct onstack_kernel_sigaction was = theirs->replaced[theirs->current].action;
  int result;
  const uint32_t trampoline = action_answer_late(signal, owner, &was, &result);
  if (trampoline >= ONSTACK_TRAMPOLINES)
    action_exchange(signal, &was, &theirs->ours);
  else if (action_is_unowned(&was))
    onstack_trampolines_forget(theirs, &action->below[trampoline]);
  else
    onstack_trampoline_publish(theirs, theirs->current, &action->below[trampoline]);
}

/*
 * To another copy that runs; false: there is none. Owners may have come and gone while we stood above it, and it could
 * not see them: it is installed by a trampoline of its own that stands for what lies below us now. All that is written
 * of another copy's is under the lock that we share, and read by its handlers as one would read it that it wrote itself.
 */
static bool action_hand_over(int signal, action_owner *owner, uint32_t trampoline,
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
  const struct onstack_kernel_sigaction *was = action_change_begin(theirs, chosen, now);
  if (onstack_sys_sigaction(signal, &next, &theirs->replaced[chosen].action) == 0 && !action_is_same(was, now))
    action_hand_over_newcomer(signal, owner, theirs);
  action_change_end(theirs);
  if (action->visited) theirs->visited = 1;
  action_check_dispute(signal, theirs, theirs->current);
  return true;
}

static void action_leave_to_next(int signal, action_owner *owner, uint32_t trampoline,
                                 const struct onstack_kernel_sigaction *now) {
  const onstack_action *action = &onstack_actions[signal];
  struct onstack_kernel_sigaction next = action_next_owner(signal, trampoline);
  /* Go's timers tick on for some 10 ms after its profile, and over SIG_DFL the first of them kills. Go itself leaves
     SIG_IGN behind for that reason (golang#19320): so do we, where such an owner has been. */
  if (action->visited && next.handler == action_default) next.handler = action_ignore;
  if (owner->restore == ONSTACK_RESTORE_IGNORE) next.handler = action_ignore;
  action_restore(signal, owner, &next, now);
}

/* The last session has ended: who is to have the action? A newer owner stays, and so does a copy that runs. An owner that
   has put something back a moment ago is not the next owner. Where timers of ours tick on, it stays: they would kill over
   SIG_DFL, and an owner would take them for its own; as a pass-through we know them and drop them. */
static void action_leave(int signal, action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  uint32_t trampoline = action->current;
  struct onstack_kernel_sigaction now;
  onstack_copy *copy = NULL;
  if (onstack_load_relaxed(&onstack_timers_left) > 0 || onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  const bool mine = action_is_ours(&now);
  if (!mine) onstack_copies_meet(now.handler, &copy);
  if (!mine && (!copy || onstack_copy_runs(copy, signal))) return;
  if (copy || onstack_trampoline_at(&onstack_copy_self, now.handler) != trampoline)
    trampoline = action_put_back(signal, &now, copy);
  action->current = trampoline; /* for the child of a fork that begins before the next line has ended */
  if (!action_hand_over(signal, owner, trampoline, &now)) action_leave_to_next(signal, owner, trampoline, &now);
}

bool onstack_action_ends_in_default(int signal) {
  const onstack_action *action = &onstack_actions[signal];
  return action_owners[signal].sessions == 1 && !action->visited &&
         action_next_owner(signal, action->current).handler == action_default;
}

void onstack_action_release(int signal) {
  action_owner *owner = &action_owners[signal];
  if (owner->sessions > 1) {
    owner->sessions--;
    return;
  }
  onstack_copy *locked = onstack_copies_lock(true);
  owner->sessions = 0;
  onstack_dekker_store(&onstack_actions[signal].undisputed, 0u);
  onstack_own_wait_closed(signal); /* a foreign handler, or SIG_DFL, is not to be met on a thread of ours */
  onstack_dekker_store(&onstack_actions[signal].running, 0u); /* before the look at who is on top */
  action_leave(signal, owner);
  onstack_copies_unlock(locked);
}

void onstack_action_block(uint64_t *old_mask) {
  onstack_kernel_sigset set = 0;
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++)
    if (onstack_load_relaxed(&action_owners[signal].sessions) > 0) set |= ONSTACK_SIGBIT(signal);
  onstack_sys_sigprocmask(SIG_BLOCK, &set, old_mask);
}

void onstack_action_unblock(uint64_t old_mask) { onstack_sys_sigprocmask(SIG_SETMASK, &old_mask, NULL); }

/*
 * The kernel copies the actions before it copies the memory (kernel/fork.c, copy_process), so a start or stop of another
 * thread may lie between the two: what our memory says about sessions need not fit the action that the child has. Only
 * the action itself is asked. A child has neither timers nor pending signals, so SIG_DFL can come back at once.
 */
static void action_after_fork(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction now;
  if (!owner->used || onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  if (!action_is_ours(&now) && !(now.handler == action_ignore && now.mask == action_mark(owner))) return;
  const uint32_t installed = onstack_trampoline_at(&onstack_copy_self, now.handler);
  const struct onstack_kernel_sigaction next =
      action_next_owner(signal, installed < ONSTACK_TRAMPOLINES ? installed : onstack_actions[signal].current);
  onstack_sys_sigaction(signal, &next, NULL);
}

/* The parent may have been in the middle of a change: who had come just then lies below that trampoline, as it will there. */
static void action_finish_change(int signal, action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  const uint32_t trampoline = onstack_action_changes(onstack_load_relaxed(&action->changing));
  int result;
  if (trampoline >= ONSTACK_TRAMPOLINES) return;
  const struct onstack_kernel_sigaction was = action->replaced[trampoline].action;
  if (was.handler != action->expected) {
    action->current = trampoline;
    const uint32_t right = action_answer_late(signal, owner, &was, &result);
    if (right < ONSTACK_TRAMPOLINES) onstack_trampoline_publish(action, trampoline, &action->below[right]);
  }
  action_change_end(action);
}

void onstack_action_after_fork(void) {
  onstack_copies_after_fork();
  onstack_action_forget_flights();
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++) {
    action_owners[signal].sessions = 0;
    action_owners[signal].returns = 0;
    onstack_dekker_store(&onstack_actions[signal].undisputed, 0u);
    onstack_dekker_store(&onstack_actions[signal].running, 0u);
    action_finish_change(signal, &action_owners[signal]);
    action_after_fork(signal, &action_owners[signal]);
  }
}
