/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that this library puts its own before, as they would be found without it.
 *
 * An exported function of ours calls no other exported function by name. The name may be bound to a function of the host,
 * and if that function calls ours, the two call each other until the stack ends. Functions that share work call a static
 * one. ci/check-exports.sh compares the names that the library exports with those that it binds.
 */
#ifndef ONSTACK_PRELOAD_NEXT_H
#define ONSTACK_PRELOAD_NEXT_H

#include "platform/defs.h"

#define ONSTACK_PRELOAD_API __attribute__((visibility("default")))

typedef enum onstack_next_name {
  ONSTACK_NEXT_EXIT,
  ONSTACK_NEXT_EXIT_CAPITAL,
  ONSTACK_NEXT_ABORT,
  ONSTACK_NEXT_FORK,
  ONSTACK_NEXT_FORKPTY,
  ONSTACK_NEXT_DAEMON,
  ONSTACK_NEXT_EXECVE,
  ONSTACK_NEXT_EXECVPE,
  ONSTACK_NEXT_FEXECVE,
  ONSTACK_NEXT_SIGACTION,
  ONSTACK_NEXT_SIGNAL,
  ONSTACK_NEXT_SYSV_SIGNAL,
  ONSTACK_NEXT_SIGINTERRUPT,
  ONSTACK_NEXT_SIGSET,
  ONSTACK_NEXT_SIGIGNORE,
  ONSTACK_NEXT_SIGWAIT,
  ONSTACK_NEXT_SIGWAITINFO,
  ONSTACK_NEXT_SIGTIMEDWAIT,
  ONSTACK_NEXT_SIGNALFD,
  ONSTACK_NEXT_PTHREAD_CREATE,
  ONSTACK_NEXT_FSTATAT,
  ONSTACK_NEXT_FXSTATAT,
  ONSTACK_NEXT_COUNT
} onstack_next_name;

/* Looks all of them up: the loader's lock must not be asked for in the child of vfork or in a signal handler. */
ONSTACK_INTERNAL void onstack_next_find(void);

/* Converts without a warning to the function's type. NULL: there is none. Signal-safe behind onstack_next_find. */
ONSTACK_INTERNAL void (*onstack_next(onstack_next_name name))(void);

#endif
