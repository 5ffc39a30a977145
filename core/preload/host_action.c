/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_action.h"

#include "base/atomics.h"
#include "base/sys.h"
#include "control/signal/action.h"
#include "control/tick/own_threads_wait.h"
#include "handler/signal/forward.h"
#include "preload/next.h"

typedef int (*host_sigaction)(int, const struct sigaction *, struct sigaction *);

/*
 * A sequence lock: odd while somebody writes. Writers have every signal blocked, so a handler never waits for the thread
 * that it interrupted; those on other threads wait for some stores.
 */
static struct {
  int32_t pid; /* 0: not taken over */
  uint32_t turn;
  struct sigaction action;
} host;

/* Plain copies: what a reader tore is thrown away by the second look at `turn`. */
static struct sigaction host_read(void) {
  struct sigaction copy;
  uint32_t turn;
  do {
    while ((turn = onstack_observe(&host.turn)) & 1) continue;
    copy = *(const volatile struct sigaction *)&host.action;
    onstack_fence_observe();
  } while (onstack_load_relaxed(&host.turn) != turn);
  return copy;
}

static bool host_handles(const struct sigaction *action) {
  return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static void host_publish(const struct sigaction *action) {
  const bool handles = host_handles(action);
  onstack_dekker_store(&onstack_own_stands_in.has_host, (uint32_t)handles);
  onstack_dekker_store(&onstack_own_stands_in.interrupts, (uint32_t)(handles && !(action->sa_flags & SA_RESTART)));
}

void onstack_host_action_change(const struct sigaction *action, struct sigaction *old) {
  onstack_kernel_sigset every = ~(onstack_kernel_sigset)0, mask;
  struct sigaction wanted;
  if (action) wanted = *action; /* before the lock: it may lie in memory that faults */
  if (!action) {
    if (old) *old = host_read();
    return;
  }
  if (host_handles(&wanted)) { /* it is not to be called on a thread of ours */
    onstack_dekker_store(&onstack_own_stands_in.has_host, 1u);
    onstack_own_wait_closed(SIGPROF);
  }
  onstack_sys_sigprocmask(SIG_SETMASK, &every, &mask);
  uint32_t turn = onstack_load_relaxed(&host.turn) & ~1u;
  while (!onstack_cas(&host.turn, &turn, turn + 1)) turn &= ~1u;
  onstack_fence_publish();
  struct sigaction before = host.action;
  host.action = wanted;
  host_publish(&wanted);
  onstack_publish(&host.turn, turn + 2);
  onstack_action_follow_host(SIGPROF);
  onstack_sys_sigprocmask(SIG_SETMASK, &mask, NULL);
  if (old) *old = before;
}

static void host_handler(int signal, siginfo_t *info, void *context) {
  struct sigaction action = host_read();
  if (!host_handles(&action)) return;
  if (action.sa_flags & (int)SA_RESETHAND) {
    struct sigaction reset = action;
    reset.sa_handler = SIG_DFL;
    onstack_host_action_change(&reset, NULL);
  }
  const struct onstack_kernel_sigaction owner = {
      .handler = (uint64_t)(uintptr_t)action.sa_sigaction,
      .flags = (uint64_t)(uint32_t)action.sa_flags,
      .mask = *(const onstack_kernel_sigset *)(const void *)&action.sa_mask, /* the first 64 bits, in every libc */
  };
  onstack_action_call(&owner, signal, info, context);
}

void onstack_host_action_begin(void) {
  host_sigaction next = (host_sigaction)onstack_next(ONSTACK_NEXT_SIGACTION);
  struct sigaction ours = {.sa_sigaction = host_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  sigfillset(&ours.sa_mask); /* the host's own is set for its handler alone */
  if (!next || next(SIGPROF, &ours, &host.action) != 0) return;
  onstack_own_stands_in.handler = (uint64_t)(uintptr_t)host_handler;
  host_publish(&host.action);
  onstack_action_follow_host(SIGPROF);
  host.pid = onstack_sys_getpid();
}

void onstack_host_action_forked(void) {
  if (host.pid == 0) return;
  host.turn &= ~1u; /* another thread of the parent's was writing: its change did or did not happen */
  host.pid = onstack_sys_getpid();
}

bool onstack_host_action_is_ours(int signal) {
  return signal == SIGPROF && host.pid != 0 && host.pid == onstack_sys_getpid();
}
