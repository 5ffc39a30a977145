/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's ways to change a signal's action; see host_action.h for the one signal where that matters. */
#include "base/address.h"
#include "handler/signal/copy.h"
#include "handler/signal/copy.h"
#include "handler/unwind/memory.h"
#include "preload/host_action.h"
#include "preload/next.h"

#include <errno.h>
#include <string.h>

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

ONSTACK_PRELOAD_API int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  if (!onstack_host_action_is_ours(signal) || (action && interpose_is_copys(action)))
    return __wrap_sigaction(signal, action, old);
  onstack_host_action_change(action, old);
  return 0;
}

ONSTACK_PRELOAD_API int __sigaction(int signal, const struct sigaction *action, struct sigaction *old);
int __sigaction(int signal, const struct sigaction *action, struct sigaction *old) { return sigaction(signal, action, old); }

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

ONSTACK_PRELOAD_API sighandler_t signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SIGNAL, number, handler, SA_RESTART);
}

ONSTACK_PRELOAD_API sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t bsd_signal(int number, sighandler_t handler) {
  return interpose_handler(ONSTACK_NEXT_SIGNAL, number, handler, SA_RESTART);
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
