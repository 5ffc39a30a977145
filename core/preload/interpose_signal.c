/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's ways to change a signal's action; see host_action.h for the one signal where that matters. */
#include "platform/defs.h"
#include "platform/atomics.h"
#include "sampler/signal/copy.h"
#include "sampler/unwind/memory.h"
#include "preload/host_action.h"
#include "preload/next.h"
#include "platform/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>

typedef int (*interpose_sigaction)(int, const struct sigaction *, struct sigaction *);
typedef sighandler_t (*interpose_signal)(int, sighandler_t);

/* What the library's own calls of sigaction are bound to (ld --wrap): the session changes the kernel's action. */
ONSTACK_INTERNAL int __wrap_sigaction(int signal, const struct sigaction *action, struct sigaction *old);
int __wrap_sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  interpose_sigaction next = (interpose_sigaction)onstack_next(ONSTACK_NEXT_SIGACTION);
  return next ? next(signal, action, old) : (errno = ENOSYS, -1);
}

/* Another copy of the library, linked by the host: it deals with the kernel and with our session. Kept here, its handler
   would be taken for the host's, in place of that. */
static bool interpose_is_copys(const struct sigaction *action) {
  uint64_t handler = (uint64_t)(uintptr_t)action->sa_sigaction, mark[2], own[2];
  uint64_t ours = (uint64_t)(uintptr_t)onstack_handler_trampoline;
  return handler >= ONSTACK_ADDRESS_LOW && onstack_memory_copy_pair(handler - ONSTACK_COPY_MARK_BYTES, mark) &&
         onstack_memory_copy_pair(ours - ONSTACK_COPY_MARK_BYTES, own) &&
         memcmp(mark, own, ONSTACK_COPY_MARK_BYTES - 1) == 0; /* the last byte is the version */
}

static int interpose_action(int signal, const struct sigaction *action, struct sigaction *old) {
  if (!onstack_host_action_is_ours(signal) || (action && interpose_is_copys(action)))
    return __wrap_sigaction(signal, action, old);
  onstack_host_action_change(action, old);
  return 0;
}

ONSTACK_PRELOAD_API int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  return interpose_action(signal, action, old);
}

/* Erlang's virtual machine defines sigaction itself and calls this name for the function below its own. */
ONSTACK_PRELOAD_API int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
int __sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  return interpose_action(signal, action, old);
}

static sighandler_t interpose_handler(onstack_next_name name, int signal, sighandler_t handler, int flags) {
  if (!onstack_host_action_is_ours(signal)) {
    interpose_signal next = (interpose_signal)onstack_next(name);
    return next ? next(signal, handler) : (errno = ENOSYS, SIG_ERR);
  }
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
  if (handler == SIG_ERR) return errno = EINVAL, SIG_ERR;
  sigemptyset(&action.sa_mask);
  onstack_host_action_change(&action, &old);
  return old.sa_handler;
}

#undef signal /* a macro in some dialects */

static uint32_t interpose_interrupts; /* what siginterrupt has said of SIGPROF, for later calls of signal() too */

static int interpose_flags(void) { return onstack_load_relaxed(&interpose_interrupts) ? 0 : SA_RESTART; }

ONSTACK_PRELOAD_API sighandler_t signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SIGNAL, number, handler, interpose_flags());
}

ONSTACK_PRELOAD_API sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t bsd_signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SIGNAL, number, handler, interpose_flags());
}

ONSTACK_PRELOAD_API int siginterrupt(int number, int interrupts) {
  if (!onstack_host_action_is_ours(number)) {
    int (*next)(int, int) = (int (*)(int, int))onstack_next(ONSTACK_NEXT_SIGINTERRUPT);
    return next ? next(number, interrupts) : (errno = ENOSYS, -1);
  }
  struct sigaction action;
  onstack_host_action_change(NULL, &action);
  action.sa_flags = interrupts ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
  onstack_store_relaxed(&interpose_interrupts, (uint32_t)(interrupts != 0));
  onstack_host_action_change(&action, NULL);
  return 0;
}

#define INTERPOSE_SYSV (SA_RESETHAND | SA_NODEFER)

ONSTACK_PRELOAD_API sighandler_t sysv_signal(int number, sighandler_t handler);
sighandler_t sysv_signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SYSV_SIGNAL, number, handler, (int)INTERPOSE_SYSV);
}

/* What `signal` is to programs compiled for strict System V. */
ONSTACK_PRELOAD_API sighandler_t __sysv_signal(int number, sighandler_t handler);
sighandler_t __sysv_signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SYSV_SIGNAL, number, handler, (int)INTERPOSE_SYSV);
}

ONSTACK_PRELOAD_API int sigignore(int number) {
  if (!onstack_host_action_is_ours(number)) {
    int (*next)(int) = (int (*)(int))onstack_next(ONSTACK_NEXT_SIGIGNORE);
    return next ? next(number) : (errno = ENOSYS, -1);
  }
  const struct sigaction action = {.sa_handler = SIG_IGN};
  onstack_host_action_change(&action, NULL);
  return 0;
}

/* A handler, with the signal open; or SIG_HOLD: the signal blocked, with the action that it has. Answers what was before. */
ONSTACK_PRELOAD_API sighandler_t sigset(int number, sighandler_t handler) {
  if (!onstack_host_action_is_ours(number)) {
    interpose_signal next = (interpose_signal)onstack_next(ONSTACK_NEXT_SIGSET);
    return next ? next(number, handler) : (errno = ENOSYS, SIG_ERR);
  }
  if (handler == SIG_ERR) return errno = EINVAL, SIG_ERR;
  const bool holds = handler == SIG_HOLD;
  struct sigaction action = {.sa_handler = handler}, old;
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, number);
  onstack_host_action_change(holds ? NULL : &action, &old);
  if (sigprocmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &mask, &before) != 0) return SIG_ERR;
  return sigismember(&before, number) ? SIG_HOLD : old.sa_handler;
}

/* ---- waiting for signals ---- */

/*
 * The host's calls that take pending signals. Many servers block every signal in every thread, and one thread waits for all of
 * them; most shut down at a signal that they do not expect. The ticks of a thread that blocks SIGPROF are pending too. So these
 * calls leave SIGPROF out of the host's set. The host still gets SIGPROF if it has a handler for it, or if the set has
 * no other signal: then it waits for SIGPROF itself. The system calls themselves are not seen.
 */

#define WAIT_TICKS ONSTACK_SIGBIT(SIGPROF)

/* Returns `set`, or `without` after it has been filled with all signals of `set` but SIGPROF. */
static const sigset_t *wait_for_host(const sigset_t *set, sigset_t *without) {
  onstack_kernel_sigset signals;
  memcpy(&signals, set, sizeof(signals)); /* what the kernel reads of it; a caller may have no more */
  if (!(signals & WAIT_TICKS) || signals == WAIT_TICKS || !onstack_host_action_is_ours(SIGPROF) ||
      onstack_host_action_has_handler())
    return set;
  signals &= ~WAIT_TICKS;
  sigemptyset(without);
  memcpy(without, &signals, sizeof(signals));
  return without;
}

/* Returns an error number, as libc's. */
ONSTACK_PRELOAD_API int sigwait(const sigset_t *set, int *signal) {
  int (*next)(const sigset_t *, int *) = (int (*)(const sigset_t *, int *))onstack_next(ONSTACK_NEXT_SIGWAIT);
  sigset_t without;
  return next ? next(wait_for_host(set, &without), signal) : ENOSYS;
}

ONSTACK_PRELOAD_API int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
  int (*next)(const sigset_t *, siginfo_t *) =
      (int (*)(const sigset_t *, siginfo_t *))onstack_next(ONSTACK_NEXT_SIGWAITINFO);
  sigset_t without;
  return next ? next(wait_for_host(set, &without), info) : (errno = ENOSYS, -1);
}

ONSTACK_PRELOAD_API int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
  int (*next)(const sigset_t *, siginfo_t *, const struct timespec *) =
      (int (*)(const sigset_t *, siginfo_t *, const struct timespec *))onstack_next(ONSTACK_NEXT_SIGTIMEDWAIT);
  sigset_t without;
  return next ? next(wait_for_host(set, &without), info, timeout) : (errno = ENOSYS, -1);
}

ONSTACK_PRELOAD_API int signalfd(int file, const sigset_t *set, int flags) {
  int (*next)(int, const sigset_t *, int) = (int (*)(int, const sigset_t *, int))onstack_next(ONSTACK_NEXT_SIGNALFD);
  sigset_t without;
  return next ? next(file, wait_for_host(set, &without), flags) : (errno = ENOSYS, -1);
}
