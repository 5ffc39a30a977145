/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_action.h"

#include "platform/defs.h"
#include "platform/atomics.h"
#include "platform/sys.h"
#include "sampler/signal/action.h"
#include "sampler/signal/copy.h"
#include "sampler/signal/owners.h"
#include "sampler/signal/own_threads.h"
#include "sampler/unwind/memory.h"
#include "preload/first_ticks.h"
#include "preload/next.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>

typedef int (*host_sigaction)(int, const struct sigaction *, struct sigaction *);

/* As words: readers copy it while somebody writes. */
typedef union host_words {
  struct sigaction action;
  uint64_t words[sizeof(struct sigaction) / sizeof(uint64_t)];
} host_words;
_Static_assert(sizeof(host_words) == sizeof(struct sigaction), "whole words");

static struct {
  int32_t pid; /* 0: not taken over */
  uint32_t writing;
  onstack_seqlock lock; /* of `now` */
  host_words now;
} host;

#define HOST_PAUSE_NS 20000u /* between two looks at what another thread does */

/* Writers have every signal blocked, so a handler never waits for the thread that it interrupted; on another thread it
   waits for some stores. Asleep, as the writer may wait for this very processor under a lower priority. */
static struct sigaction host_read(void) {
  host_words copy;
  uint32_t begun;
  for (uint32_t round = 0;; round++) {
    if (round > 0) onstack_sys_sleep(HOST_PAUSE_NS);
    begun = onstack_seqlock_begin(&host.lock);
    for (size_t i = 0; i < ONSTACK_COUNT_OF(copy.words); i++) copy.words[i] = onstack_load_relaxed(&host.now.words[i]);
    if (onstack_seqlock_held(&host.lock, begun)) return copy.action;
  }
}

static bool host_handles(const struct sigaction *action) {
  return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static void host_publish(const struct sigaction *action) {
  const bool handles = host_handles(action);
  onstack_dekker_store(&onstack_own_stands_in.has_host, (uint32_t)handles);
  onstack_dekker_store(&onstack_own_stands_in.interrupts, (uint32_t)(handles && !(action->sa_flags & SA_RESTART)));
}

/* Returns what was there. */
static struct sigaction host_write(const struct sigaction *action) {
  const host_words wanted = {.action = *action};
  /* Asleep between two looks: who writes may need this processor, whatever this thread's policy. A raw call: it may be in a
     handler, with every signal blocked. */
  for (uint32_t free = 0; !onstack_cas(&host.writing, &free, 1u); free = 0) onstack_sys_sleep(HOST_PAUSE_NS);
  const struct sigaction before = host.now.action;
  onstack_seqlock_write_begin(&host.lock);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(wanted.words); i++) onstack_store_relaxed(&host.now.words[i], wanted.words[i]);
  host_publish(action);
  onstack_seqlock_write_end(&host.lock);
  onstack_publish(&host.writing, 0u);
  return before;
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
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &mask) == 0; /* refused: there is nothing to put back */
  const struct sigaction before = host_write(&wanted);
  onstack_action_follow_host(SIGPROF);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &mask, NULL);
  if (old) *old = before;
}

static void host_handler(int signal, siginfo_t *info, void *context) {
  if (onstack_first_ticks_take(info, context)) return;
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

void onstack_host_action_begin(bool on_stack) {
  host_sigaction next = (host_sigaction)onstack_next(ONSTACK_NEXT_SIGACTION);
  struct sigaction ours = {.sa_sigaction = host_handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (on_stack) ours.sa_flags |= SA_ONSTACK;
  sigfillset(&ours.sa_mask); /* the host's own is set for its handler alone */
  if (!next || next(SIGPROF, &ours, &host.now.action) != 0) return;
  onstack_own_stands_in.handler = (uint64_t)(uintptr_t)host_handler;
  host_publish(&host.now.action);
  onstack_action_follow_host(SIGPROF);
  host.pid = onstack_sys_getpid();
}

void onstack_host_action_forked(void) {
  if (host.pid == 0) return;
  onstack_seqlock_after_fork(
      &host.lock); /* another thread of the parent's was writing: its change is lost, or was made in part */
  host.writing = 0;
  host.pid = onstack_sys_getpid();
}

bool onstack_host_action_is_ours(int signal) {
  return signal == SIGPROF && host.pid != 0 && host.pid == onstack_sys_getpid();
}

bool onstack_host_action_has_handler(void) { return onstack_dekker_load(&onstack_own_stands_in.has_host); }

/* ---- the host's ways to change a signal's action ---- */

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
