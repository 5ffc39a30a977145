/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host's calls that take pending signals. Many servers block every signal in every thread, and one thread waits for all of
 * them; most shut down at a signal that they do not expect. The ticks of a thread that blocks SIGPROF are pending too. So these
 * calls leave SIGPROF out of the host's set. The host still gets SIGPROF if it has a handler for it, or if the set has
 * no other signal: then it waits for SIGPROF itself. The system calls themselves are not seen.
 */
#include "platform/sys.h"
#include "preload/host_action.h"
#include "preload/next.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>

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
