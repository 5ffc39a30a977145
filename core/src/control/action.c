/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * action that start found" includes both. Ours alone is installed through libc, whose restorer debuggers and unwinders
 * recognize.
 */
#include "control/action.h"

#include "base/address.h"
#include "handler/action.h"
#include "handler/entry.h"
#include "handler/memory.h"

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
  onstack_found *base;     /* what the first start found */
  onstack_found *upper;    /* who came later and is below us now, or NULL */
  onstack_found *under;    /* what lay under us when `base`, then a newer owner, found our pointer; or NULL */
  bool visited;            /* a newer owner came under this run: its own timers may outlive its profile */
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

/* Another copy of this library, by the mark before its entry. Read by the kernel: the address is anybody's. */
static bool action_is_copy(uint64_t handler) {
  uint64_t mark[2], own[2];
  const uint64_t bytes = sizeof(mark);
  if (handler < ONSTACK_ADDRESS_LOW) return false;
  memcpy(own, (const void *)((uintptr_t)onstack_handler_trampoline - bytes), sizeof(own));
  return onstack_memory_copy_pair(handler - bytes, mark) && memcmp(mark, own, sizeof(own)) == 0;
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
static void action_publish_levels(int signal, const action_owner *owner) {
  onstack_action *action = &onstack_actions[signal];
  onstack_found *levels[ONSTACK_ACTION_LEVELS] = {NULL, NULL, NULL};
  uint32_t count = 0;
  if (owner->upper) levels[count++] = owner->upper;
  levels[count++] = owner->base;
  if (owner->under) levels[count++] = owner->under;
  for (uint32_t i = ONSTACK_ACTION_LEVELS; i-- > 0;) onstack_publish(&action->levels[i], levels[i]);
}

/* Our pointer is there, but not as it was installed last: the newest owner that had found it has left. */
static void action_forget_newest(action_owner *owner) {
  if (owner->upper) {
    owner->upper = NULL;
  } else if (owner->under) {
    owner->base = owner->under;
    owner->under = NULL;
  }
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
  if (result == 0) result = onstack_sys_sigaction(signal, &owner->ours, NULL);
  /* As the kernel keeps it: without the two that cannot be blocked. */
  return result < 0 ? result : onstack_sys_sigaction(signal, NULL, &owner->ours);
}

static void action_reset_counters(onstack_action *action) {
  onstack_store_relaxed(&action->forwarded, (uint64_t)0);
  onstack_store_relaxed(&action->forwarded_timer, (uint64_t)0);
  onstack_store_relaxed(&action->swallowed, (uint64_t)0);
  onstack_store_relaxed(&action->late, (uint64_t)0);
  onstack_store_relaxed(&action->looped, (uint64_t)0);
}

int onstack_action_acquire(int signal, bool on_stack, onstack_restore restore) {
  action_owner *owner = &action_owners[signal];
  struct onstack_kernel_sigaction found;
  if (owner->sessions > 0) {
    owner->sessions++;
    return 0;
  }
  int result = onstack_sys_sigaction(signal, NULL, &found);
  if (result < 0) return result;
  owner->on_stack = on_stack;
  owner->restore = restore;
  owner->returns = 0;
  owner->upper = owner->under = NULL;
  owner->visited = false;
  /* Our own handler, put back by an owner that had found it: what lies underneath is still known. */
  if (!action_is_ours(&found)) {
    onstack_found *base = action_keep(&found);
    if (!base) return -ENOMEM;
    owner->under = owner->handed ? owner->base : NULL;
    owner->visited = owner->under != NULL;
    owner->base = base;
    action_reset_counters(&onstack_actions[signal]);
  }
  action_publish_levels(signal, owner); /* before the handler can run */
  onstack_publish(&owner->used, 1u);
  /* Somebody may install theirs between the look above and here: that cannot be seen, only kept short. */
  result = action_install(signal, owner);
  if (result < 0)
    onstack_sys_sigaction(signal, &found, NULL);
  else
    owner->sessions = 1;
  return result;
}

/* Somebody's action stands where ours was. Back on top, with that one underneath. */
static void action_return_to_top(int signal, action_owner *owner, const struct onstack_kernel_sigaction *now) {
  bool nobody = now->handler == action_default || now->handler == action_ignore;
  if (action_is_copy(now->handler) || owner->returns >= ACTION_RETURNS) return;
  onstack_found *found = action_keep(now);
  if (!found) return;
  owner->returns++;
  /* An owner that restored what it had found long ago, or the base itself anew: there is only one level then. */
  if (nobody || now->handler == owner->base->action.handler) {
    owner->base = found;
    owner->upper = owner->under = NULL;
  } else {
    owner->upper = found;
    owner->visited = true;
  }
  action_publish_levels(signal, owner);
  owner->other = !owner->other;
  action_install(signal, owner);
}

void onstack_action_tend(int signal) {
  action_owner *owner = &action_owners[signal];
  struct onstack_kernel_sigaction now;
  if (owner->sessions == 0 || onstack_sys_sigaction(signal, NULL, &now) < 0) return;
  if (!action_is_ours(&now)) {
    action_return_to_top(signal, owner, &now);
    return;
  }
  if (action_is_same(&now, &owner->ours)) return;
  /* The newer owner has left: it put back what it had found, the other trampoline or flags and mask of its own. */
  action_forget_newest(owner);
  action_publish_levels(signal, owner);
  action_install(signal, owner);
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
static void action_restore(int signal, action_owner *owner, struct onstack_kernel_sigaction found) {
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

static void action_leave(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction now;
  owner->handed = true;
  if (onstack_sys_sigaction(signal, NULL, &now) < 0 || !action_is_ours(&now)) return; /* a newer owner stays */
  /* The newest owner may have left a moment ago: then it is no heir. */
  if (!action_is_same(&now, &owner->ours)) action_forget_newest(owner);
  owner->handed = owner->upper != NULL || owner->under != NULL;
  struct onstack_kernel_sigaction heir = action_heir(owner);
  /* Go's timers tick on for some 10 ms after its profile, and over SIG_DFL the first of them kills. Go itself leaves
     SIG_IGN behind for that reason (golang#19320): so do we, where such an owner has been. */
  if (owner->visited && heir.handler == action_default) heir.handler = action_ignore;
  if (owner->restore == ONSTACK_RESTORE_IGNORE) heir.handler = action_ignore;
  action_restore(signal, owner, heir);
}

void onstack_action_release(int signal) {
  action_owner *owner = &action_owners[signal];
  if (owner->sessions > 1) {
    owner->sessions--;
    return;
  }
  owner->sessions = 0;
  action_leave(signal, owner);
  /* An owner that is left may yet put our pointer back: then it must not be what we pass on to. */
  if (owner->under) owner->base = owner->under;
  owner->upper = owner->under = NULL;
  action_publish_levels(signal, owner);
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
  for (int signal = 1; signal < ONSTACK_SIGNALS; signal++) {
    action_owner *owner = &action_owners[signal];
    struct onstack_kernel_sigaction now;
    owner->sessions = 0;
    if (!owner->used || onstack_sys_sigaction(signal, NULL, &now) < 0) continue;
    if (!action_is_ours(&now) && !(now.handler == action_ignore && now.mask == action_mark(owner))) continue;
    struct onstack_kernel_sigaction heir = action_heir(owner);
    onstack_sys_sigaction(signal, &heir, NULL);
  }
}
