/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends that run no destructor: _exit and abort. Calls inside libc (assert, a corrupted heap, the end of exit itself) and
 * the system call of a runtime that does without libc do not come by here; for these there is the keeper's last save.
 */
#include "platform/sys.h"
#include "preload/keeper.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

#include <stdlib.h>
#include <unistd.h>

static _Noreturn void interpose_leave(onstack_next_name name, int status) {
  onstack_keeper_end(ONSTACK_LIFECYCLE_ABRUPT_SECONDS, true);
  void (*next)(int) = (void (*)(int))onstack_next(name);
  if (next) next(status);
  for (;;) onstack_sys_call1(SYS_exit_group, status);
}

ONSTACK_PRELOAD_API _Noreturn void _exit(int status) { interpose_leave(ONSTACK_NEXT_EXIT, status); }

ONSTACK_PRELOAD_API _Noreturn void _Exit(int status) { interpose_leave(ONSTACK_NEXT_EXIT_CAPITAL, status); }

/* Not the end: the host's handler of SIGABRT may jump out of it. */
ONSTACK_PRELOAD_API _Noreturn void abort(void) {
  onstack_keeper_save(ONSTACK_LIFECYCLE_ABRUPT_SECONDS);
  void (*next)(void) = onstack_next(ONSTACK_NEXT_ABORT);
  if (next) next();
  for (;;) onstack_sys_call1(SYS_exit_group, 134);
}
