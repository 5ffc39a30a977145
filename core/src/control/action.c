/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * action that start found" includes both. Ours alone is installed through libc, whose restorer debuggers and unwinders
 * recognize.
 */
#include "control/action.h"

#include "control/copies.h"
#include "handler/action.h"
#include "handler/entry.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

typedef struct action_owner {
  uint32_t sessions; /* that use it */
  uint32_t used;     /* ours was installed once: `base` is valid, and in the child of a fork the action may be ours */
  uint32_t returns;  /* how often in a row we went back on top */
  bool other;        /* which trampoline stands there; it changes with every return to the top */
  bool on_stack;
  onstack_restore restore; /* of the session that installed it */
  onstack_found *base;     /* what the first start found; below another copy, what that one passes on to */
  onstack_found *upper;    /* who came later and is below us now, or NULL */
  onstack_found *under;    /* what lay under us when `base`, then a newer owner, found our pointer; or NULL */
  const onstack_copy *over; /* the copy that the first start found, or NULL */
  bool gone_out;           /* the trampoline that the owner left on top, by the last stop, had found */
  bool handed;             /* the last session left a newer owner that may yet put our pointer back */
  struct onstack_kernel_sigaction ours; /* as we installed it */
} action_owner;

static action_owner action_owners[ONSTACK_SIGNALS];

/*
 * Found actions are kept for ever, because a handler may be reading one; equal ones share an entry, so only programs
 * that install ever new handler functions could fill the table. Then a newer owner is left where it is.
 */
#define ACTION_FOUND 64u
static onstack_found action_found[ACTION_FOUND];
static uint32_t action_found_count;

/* Two handlers that both insist on being on top would go on for ever: after so many returns we stay below. */
#define ACTION_RETURNS 8u

static const uint64_t action_default = (uint64_t)(uintptr_t)SIG_DFL;
static const uint64_t action_ignore = (uint64_t)(uintptr_t)SIG_IGN;

static bool action_is_ours(const struct onstack_kernel_sigaction *action) {
  return action->handler == (uint64_t)(uintptr_t)onstack_handler_trampoline ||
         action->handler == (uint64_t)(uintptr_t)onstack_handler_other_trampoline;
}

static bool action_is_same(const struct onstack_kernel_sigaction *a, const struct onstack_kernel_sigaction *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
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

/* What the handler forwards to, newest first. The lower levels first, so that a handler between the stores forwards to
   one of them twice at worst, and never nowhere. */
static void action_publish_levels_of(onstack_action *action, const action_owner *owner) {
  onstack_found *levels[ONSTACK_ACTION_LEVELS] = {NULL, NULL, NULL};
  uint32_t count = 0;
  if (owner->upper) levels[count++] = owner->upper;
  levels[count++] = owner->base;
  if (owner->under) levels[count++] = owner->under;
  for (uint32_t i = ONSTACK_ACTION_LEVELS; i-- > 0;) onstack_publish(&action->levels[i], levels[i]);
}

static void action_publish_levels(int signal, const action_owner *owner) {
  action_publish_levels_of(&onstack_actions[signal], owner);
}

/* The newest owner that had found our pointer has left. */
static void action_forget_newest(action_owner *owner) {
  if (owner->upper) {
    owner->upper = NULL;
  } else if (owner->under) {
    owner->base = owner->under;
    owner->under = NULL;
  }
}

/* An owner that is left on top may yet put our pointer back: then it must not be what we pass on to. */
static void action_step_below(action_owner *owner, uint64_t top) {
  owner->upper = NULL;
  if (owner->base->action.handler == top) action_forget_newest(owner);
}

static int action_install(int signal, action_owner *owner) {
  const struct onstack_kernel_sigaction *below = owner->upper ? &owner->upper->action : &owner->base->action;
  struct sigaction ours = {.sa_flags = SA_SIGINFO};
  ours.sa_sigaction = owner->other ? onstack_handler_other_trampoline : onstack_handler_trampoline;
  /* Everything blocked: nothing may nest over a claimed ring entry, and an owner such as Go expects it. */
  sigfillset(&ours.sa_mask);
  if (owner->on_stack) ours.sa_flags |= SA_ONSTACK;
  /* A found handler's choice about EINTR stays as it was; where nobody had one, system calls restart. */
  bool nobody = below->handler == action_default || below->handler == action_ignore;
  if (nobody || below->flags & (uint64_t)SA_RESTART) ours.sa_flags |= SA_RESTART;
  if (sigaction(signal, &ours, NULL) != 0) return -errno;
  /* libc leaves its own signals out of every mask. Asynchronous cancellation would then unwind a thread out of our
     handler, with its ring entry claimed for ever: once more, with a mask that is really full. */
  int result = onstack_sys_sigaction(signal, NULL, &owner->ours);
  owner->ours.mask = ~(onstack_kernel_sigset)0;
  /* Who interposes sigaction (a preload, a sanitizer) may have put something else there. */
  owner->ours.handler = (uint64_t)(uintptr_t)ours.sa_sigaction;
  if (result == 0) result = onstack_sys_sigaction(signal, &owner->ours, NULL);
  /* As the kernel keeps it: without the two that cannot be blocked. */
  if (result == 0) result = onstack_sys_sigaction(signal, NULL, &owner->ours);
  onstack_found *installed = result < 0 ? NULL : action_keep(&owner->ours);
  if (installed) onstack_dekker_store(&onstack_actions[signal].installed, installed);
  return result;
}

static void action_reset_counters(onstack_action *action) {
  onstack_store_relaxed(&action->forwarded, (uint64_t)0);
  onstack_store_relaxed(&action->forwarded_timer, (uint64_t)0);
  onstack_store_relaxed(&action->swallowed, (uint64_t)0);
  onstack_store_relaxed(&action->late, (uint64_t)0);
  onstack_store_relaxed(&action->looped, (uint64_t)0);
}

/*
 * What lies below another copy lies below us: it is never its handler that we pass signals on to. Were there three
 * levels, the lowest is left to that copy.
 */
static void action_take_over(int signal, action_owner *owner, const onstack_copy *copy) {
  const onstack_action *theirs = onstack_copy_action(copy, signal);
  owner->upper = NULL;
  owner->base = onstack_observe(&theirs->levels[0]);
  owner->under = onstack_observe(&theirs->levels[1]);
  if (onstack_load_relaxed(&theirs->visited)) onstack_store_relaxed(&onstack_actions[signal].visited, 1u);
}

/* The first session finds somebody's action, or a copy's. */
static int action_begin_over(int signal, action_owner *owner, const struct onstack_kernel_sigaction *found,
                             const onstack_copy *copy) {
  onstack_found *before = owner->handed ? owner->base : NULL;
  onstack_found *base = copy ? NULL : action_keep(found);
  if (!copy && !base) return -ENOMEM;
  onstack_store_relaxed(&onstack_actions[signal].visited, before ? 1u : 0u);
  if (copy) {
    action_take_over(signal, owner, copy);
    if (!owner->under) owner->under = before;
  } else {
    owner->under = before;
    owner->base = base;
  }
  if (owner->under && owner->under->action.handler == owner->base->action.handler) owner->under = NULL;
  owner->over = copy;
  if (before) owner->other = !owner->gone_out;
  action_reset_counters(&onstack_actions[signal]);
  return 0;
}

static int action_begin(int signal, action_owner *owner, const struct onstack_kernel_sigaction *found,
                        const onstack_copy *copy) {
  onstack_action *action = &onstack_actions[signal];
  int result = 0;
  onstack_store_relaxed(&action->handed, 0u);
  /* Our own handler, put back by an owner that had found it: what lies underneath is still known. */
  if (action_is_ours(found))
    onstack_store_relaxed(&action->visited, 0u);
  else if ((result = action_begin_over(signal, owner, found, copy)) < 0)
    return result;
  action_publish_levels(signal, owner); /* before the handler can run */
  onstack_publish(&owner->used, 1u);
  /* Somebody may install theirs between the look above and here: that cannot be seen, only kept short. */
  result = action_install(signal, owner);
  if (result == 0) return 0;
  onstack_dekker_store(&action->installed, NULL);
  onstack_sys_sigaction(signal, found, NULL);
  return result;
}

int onstack_action_acquire(int signal, bool on_stack, onstack_restore restore) {
  action_owner *owner = &action_owners[signal];
  struct onstack_kernel_sigaction found;
  onstack_copy *locked, *copy;
  if (owner->sessions > 0) {
    owner->sessions++;
    return 0;
  }
  for (;;) {
    locked = onstack_copies_lock(true);
    copy = NULL;
    int result = onstack_sys_sigaction(signal, NULL, &found);
    if (result == 0 && !action_is_ours(&found)) result = onstack_copies_meet(found.handler, &copy);
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

/* Somebody's action, no copy's, stands where ours was. Back on top, with that one underneath. */
static void action_return_to_top(int signal, action_owner *owner, const struct onstack_kernel_sigaction *now) {
  bool nobody = now->handler == action_default || now->handler == action_ignore;
  if (owner->returns >= ACTION_RETURNS) return;
  onstack_found *found = action_keep(now);
  if (!found) return;
  owner->returns++;
  /* An owner that restored what it had found long ago, or the base itself anew: it is nobody new. But when it leaves, it
     is the one below that has the signal: the newer owner may be what the base had found and put back. */
  if (nobody || now->handler == owner->base->action.handler) {
    if (nobody || owner->upper) owner->under = nobody ? NULL : owner->upper;
    owner->base = found;
    owner->upper = NULL;
  } else {
    if (owner->upper && owner->upper->action.handler != now->handler) {
      owner->under = owner->base;
      owner->base = owner->upper;
    }
    owner->upper = found;
    onstack_store_relaxed(&onstack_actions[signal].visited, 1u);
  }
  action_publish_levels(signal, owner);
  owner->other = !owner->other;
  action_install(signal, owner);
}

/* A copy that stood above us has stopped, and said what lies below (action_hand_over). */
static void action_hear(int signal, action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  if (!onstack_exchange(&action->handed, 0u)) return;
  action_take_over(signal, owner, &onstack_copy_self);
  action_publish_levels(signal, owner);
}

/*
 * A newer owner has put back what it had found. Our other trampoline: it is the newest that we know, since the two change
 * with every return to the top and every start over one. The same one, with flags and mask of its own: it came and went
 * unseen. The handler of a copy that has stopped since: that one kept what lies below.
 */
static void action_newer_has_left(int signal, action_owner *owner, uint64_t back, const onstack_copy *copy) {
  if (copy)
    action_take_over(signal, owner, copy);
  else if (back != owner->ours.handler) {
    action_forget_newest(owner);
    owner->other = !owner->other; /* as it was before that owner came: the next one has found the one before */
  }
}

static void action_look(int signal, action_owner *owner, const onstack_copy *locked) {
  struct onstack_kernel_sigaction now;
  onstack_copy *copy = NULL;
  if (onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  action_hear(signal, owner);
  if (action_is_ours(&now) && action_is_same(&now, &owner->ours)) return;
  if (!action_is_ours(&now) && (onstack_copies_meet(now.handler, &copy) < 0 || onstack_copies_outgrew(locked))) return;
  /* A copy that runs hands our ticks to us; to displace each other would never end. */
  if (copy && onstack_copy_runs(copy, signal)) return;
  if (!action_is_ours(&now) && !copy) {
    action_return_to_top(signal, owner, &now);
    return;
  }
  action_newer_has_left(signal, owner, now.handler, copy);
  action_publish_levels(signal, owner);
  action_install(signal, owner);
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

/*
 * Back to the found action. Where that is SIG_DFL, a pending tick would kill the process ("Profiling timer expired"):
 * setting SIG_IGN discards what is pending for every thread (POSIX, signal concepts, 2.4.3), so it goes first. Only
 * then: elsewhere that moment would eat another profiler's ticks.
 */
static void action_restore(int signal, const action_owner *owner, struct onstack_kernel_sigaction found) {
  struct onstack_kernel_sigaction ignore = found;
  if (found.handler == action_default) {
    ignore.handler = action_ignore;
    ignore.mask = action_mark(owner);
    onstack_sys_sigaction(signal, &ignore, NULL);
  }
  onstack_sys_sigaction(signal, &found, NULL);
}

/* What is to be there without us: the newest owner below us. A one-shot that is spent would be SIG_DFL by now. */
static struct onstack_kernel_sigaction action_heir(const action_owner *owner) {
  const onstack_found *found = owner->upper ? owner->upper : owner->base;
  struct onstack_kernel_sigaction heir = found->action;
  if (onstack_load_relaxed(&found->spent)) heir.handler = action_default;
  return heir;
}

/*
 * To the copy that we found, or to another one that is right above what we would restore; false: there is none that
 * runs. Owners may have come and gone while we stood above the found one: it is told what lies below.
 */
static bool action_hand_over(int signal, const action_owner *owner) {
  if (owner->upper) return false; /* whom that copy does not know: it will notice */
  const onstack_copy *copy = owner->over;
  if (!copy || !onstack_copy_runs(copy, signal)) copy = onstack_copies_running_over(signal, &owner->base->action);
  onstack_action *action = copy ? onstack_copy_action(copy, signal) : NULL;
  const onstack_found *theirs = copy ? onstack_observe(&action->installed) : NULL;
  if (!theirs) return false;
  if (copy == owner->over) {
    action_publish_levels_of(action, owner);
    if (onstack_load_relaxed(&onstack_actions[signal].visited)) onstack_store_relaxed(&action->visited, 1u);
    onstack_publish(&action->handed, 1u);
  }
  onstack_sys_sigaction(signal, &theirs->action, NULL);
  return true;
}

static void action_bequeath(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction heir = action_heir(owner);
  const uint64_t handler = heir.handler;
  /* Go's timers tick on for some 10 ms after its profile, and over SIG_DFL the first of them kills. Go itself leaves
     SIG_IGN behind for that reason (golang#19320): so do we, where such an owner has been. */
  if (onstack_load_relaxed(&onstack_actions[signal].visited) && handler == action_default) heir.handler = action_ignore;
  if (owner->restore == ONSTACK_RESTORE_IGNORE) heir.handler = action_ignore;
  action_restore(signal, owner, heir);
  action_step_below(owner, handler);
}

/* The last session ends: who is to have the action? */
static void action_leave(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction now = {0};
  onstack_copy *copy = NULL;
  action_hear(signal, owner);
  bool mine = onstack_sys_sigaction(signal, NULL, &now) == 0 && action_is_ours(&now);
  if (!mine) onstack_copies_meet(now.handler, &copy);
  owner->handed = !copy || owner->upper != NULL || owner->under != NULL;
  /* Who is known came before the last change of trampolines. */
  bool known = mine || (owner->upper && owner->upper->action.handler == now.handler);
  owner->gone_out = known ? !owner->other : owner->other;
  if (!mine && (!copy || onstack_copy_runs(copy, signal))) {
    action_step_below(owner, now.handler); /* a newer owner stays */
    return;
  }
  /* It may have left a moment ago: then it is no heir. */
  action_newer_has_left(signal, owner, now.handler, copy);
  owner->handed = owner->upper != NULL || owner->under != NULL;
  if (action_hand_over(signal, owner)) return;
  action_bequeath(signal, owner);
}

void onstack_action_release(int signal) {
  action_owner *owner = &action_owners[signal];
  if (owner->sessions > 1) {
    owner->sessions--;
    return;
  }
  onstack_copy *locked = onstack_copies_lock(true);
  owner->sessions = 0;
  onstack_dekker_store(&onstack_actions[signal].installed, NULL); /* before the look at who is on top */
  action_leave(signal, owner);
  action_publish_levels(signal, owner);
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
void onstack_action_after_fork(void) {
  onstack_copies_after_fork();
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++) {
    action_owner *owner = &action_owners[signal];
    struct onstack_kernel_sigaction now;
    owner->sessions = 0;
    onstack_dekker_store(&onstack_actions[signal].installed, NULL);
    if (!owner->used || onstack_sys_sigaction(signal, NULL, &now) < 0) continue;
    if (!action_is_ours(&now) && !(now.handler == action_ignore && now.mask == action_mark(owner))) continue;
    struct onstack_kernel_sigaction heir = action_heir(owner);
    onstack_sys_sigaction(signal, &heir, NULL);
  }
}
