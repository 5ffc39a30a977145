/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * action that start found" includes both. Ours alone is installed through libc, whose restorer debuggers and unwinders
 * recognize.
 */
#include "control/action.h"

#include "handler/action.h"
#include "handler/entry.h"

#include <errno.h>
#include <signal.h>

typedef struct action_owner {
  uint32_t sessions; /* that use it */
  uint32_t used;     /* ours was installed once: `saved` is valid, and in the child of a fork the action may be ours */
  onstack_restore restore; /* of the session that installed it */
  struct onstack_kernel_sigaction saved;
} action_owner;

static action_owner action_owners[ONSTACK_SIGNALS];

static const uint64_t action_default = (uint64_t)(uintptr_t)SIG_DFL;
static const uint64_t action_ignore = (uint64_t)(uintptr_t)SIG_IGN;

static bool action_is_ours(const struct onstack_kernel_sigaction *action) {
  return action->handler == (uint64_t)(uintptr_t)onstack_handler_entry;
}

int onstack_action_check_signal(int signal) {
  static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD};
  if (signal < 1 || signal >= ONSTACK_SIGNALS) return ONSTACK_E_SIGNAL;
  if (signal >= 32 && signal < SIGRTMIN) return ONSTACK_E_SIGNAL; /* libc's own: cancellation, setxid, timers */
  for (size_t i = 0; i < ONSTACK_COUNT_OF(refused); i++)
    if (signal == refused[i]) return ONSTACK_E_SIGNAL;
  return 0;
}

/* What the handler forwards to. `handler` last: a handler that sees it sees the rest. */
static void action_publish_found(int signal, const struct onstack_kernel_sigaction *found) {
  onstack_action *action = &onstack_actions[signal];
  onstack_store_relaxed(&action->flags, found->flags);
  onstack_store_relaxed(&action->mask, found->mask);
  onstack_publish(&action->handler, found->handler);
}

static int action_install(int signal, bool on_stack, const struct onstack_kernel_sigaction *found) {
  struct sigaction ours = {.sa_sigaction = onstack_handler_entry, .sa_flags = SA_SIGINFO};
  /* Everything blocked: nothing may nest over a claimed ring entry, and an owner such as Go expects it. */
  sigfillset(&ours.sa_mask);
  if (on_stack) ours.sa_flags |= SA_ONSTACK;
  /* A found handler's choice about EINTR stays as it was; where nobody had one, system calls restart. */
  bool nobody = found->handler == action_default || found->handler == action_ignore;
  if (nobody || found->flags & (uint64_t)SA_RESTART) ours.sa_flags |= SA_RESTART;
  if (sigaction(signal, &ours, NULL) != 0) return -errno;
  /* libc leaves its own signals out of every mask. Asynchronous cancellation would then unwind a thread out of our
     handler, with its ring entry claimed for ever: once more, with a mask that is really full. */
  struct onstack_kernel_sigaction full;
  int result = onstack_sys_sigaction(signal, NULL, &full);
  full.mask = ~(onstack_kernel_sigset)0;
  return result < 0 ? result : onstack_sys_sigaction(signal, &full, NULL);
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
  /* Our own handler, put back by an owner that had found it: what it forwards to is still in its record. */
  if (action_is_ours(&found)) {
    owner->sessions = 1;
    return 0;
  }
  onstack_action *action = &onstack_actions[signal];
  onstack_store_relaxed(&action->forwarded, (uint64_t)0);
  onstack_store_relaxed(&action->forwarded_timer, (uint64_t)0);
  onstack_store_relaxed(&action->swallowed, (uint64_t)0);
  onstack_store_relaxed(&action->late, (uint64_t)0);
  onstack_store_relaxed(&action->looped, (uint64_t)0);
  action_publish_found(signal, &found); /* before the handler can run */
  owner->saved = found;
  owner->restore = restore;
  onstack_publish(&owner->used, 1u);
  /* Somebody may install theirs between the look above and here: that cannot be seen, only kept short. */
  result = action_install(signal, on_stack, &found);
  if (result < 0)
    onstack_sys_sigaction(signal, &found, NULL);
  else
    owner->sessions = 1;
  return result;
}

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
static void action_restore(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction ignore = owner->saved;
  if (owner->saved.handler == action_default) {
    ignore.handler = action_ignore;
    ignore.mask = action_mark(owner);
    onstack_sys_sigaction(signal, &ignore, NULL);
  }
  onstack_sys_sigaction(signal, &owner->saved, NULL);
}

static void action_leave(int signal, action_owner *owner) {
  struct onstack_kernel_sigaction now;
  if (onstack_sys_sigaction(signal, NULL, &now) < 0 || !action_is_ours(&now)) return; /* a newer owner stays */
  if (onstack_load_relaxed(&onstack_actions[signal].flags) & (uint64_t)SA_RESETHAND &&
      onstack_load_relaxed(&onstack_actions[signal].handler) == action_default)
    owner->saved.handler = action_default; /* its one shot is spent, as it would be without us */
  if (owner->restore == ONSTACK_RESTORE_IGNORE) {
    struct onstack_kernel_sigaction ignore = now;
    ignore.handler = action_ignore;
    onstack_sys_sigaction(signal, &ignore, NULL);
    return;
  }
  action_restore(signal, owner);
}

void onstack_action_release(int signal) {
  action_owner *owner = &action_owners[signal];
  if (owner->sessions > 1) {
    owner->sessions--;
    return;
  }
  owner->sessions = 0;
  action_leave(signal, owner);
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
    if (action_is_ours(&now) || (now.handler == action_ignore && now.mask == action_mark(owner)))
      onstack_sys_sigaction(signal, &owner->saved, NULL);
  }
}
