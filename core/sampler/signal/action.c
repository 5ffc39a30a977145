/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's structures are read and written raw, because libc hides the restorer and rewrites flags: "exactly the
 * previous action" includes both. No change is made blindly: the kernel says with each what was there, and an
 * owner that another thread has installed since the look is not lost.
 */
#include "sampler/signal/action.h"

#include "platform/process.h"
#include "sampler/signal/change.h"
#include "sampler/signal/registry.h"
#include "sampler/signal/on_top.h"
#include "sampler/signal/own_threads.h"

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
