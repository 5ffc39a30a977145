/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/guard.h"

#include "platform/atomics.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"
#include "preload/allocator.h"
#include "preload/detached_thread.h"
#include "preload/host_stderr.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define GUARD_TRIES 20u
#define GUARD_POLL_NS 1000000 /* while the keeper ends, */
#define GUARD_REST_SECONDS 1  /* and before: a filter may have ended it without a word */
#define GUARD_ENDS 1u
#define GUARD_ENDS_ALONE 2u

/* linux/close_range.h, since 5.9; the number is the same on every architecture. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define GUARD_CLOSE_RANGE_UNSHARE 2u

static struct {
  bool asked;            /* the kernel, for a table. The keeper only */
  const int32_t *keeper; /* `keeper` and `mask`: written before the guard is made */
  onstack_kernel_sigset mask;
  uint32_t ends; /* futex; GUARD_ENDS and so on: written by the keeper, read by the guard */
} guard;

void onstack_guard_take_own_table(void) {
  if (guard.asked || !onstack_allocator_is_libcs()) return;
  guard.asked = true;
  /* Not unshare(): the copy leaves out what is to be closed, so no file of the host stays open because of us. (Before Linux
     6.12 the first 64 are copied and closed at once.) */
  if (onstack_sys_call3(SYS_close_range, STDERR_FILENO + 1, (long)UINT32_MAX, GUARD_CLOSE_RANGE_UNSHARE) != 0) return;
  onstack_sys_call3(SYS_close_range, 0, STDERR_FILENO - 1, 0);
  onstack_host_stderr_own();
}

/* `polls`: how often it has looked since the keeper said that it ends. Where the system does not say whether a thread is there
   (a filter refuses tgkill), the keeper has ended by then. */
static bool guard_is_last(uint32_t polls) {
  const int32_t keeper = onstack_load_relaxed(guard.keeper);
  if (keeper == 0) return false;
  const long answer = onstack_sys_call3(SYS_tgkill, onstack_sys_getpid(), keeper, 0);
  return answer == -ESRCH || (answer != 0 && polls >= GUARD_TRIES);
}

/* Few system calls: it has the filters of the first thread. */
static void *guard_main(void *argument) {
  (void)argument;
  onstack_own_enter();
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)"onstack-guard");
  for (uint32_t polls = 0; !guard_is_last(polls);) {
    const uint32_t ends = onstack_observe(&guard.ends);
    if (ends) polls++;
    const struct onstack_timespec poll = {0, GUARD_POLL_NS}, rest = {GUARD_REST_SECONDS, 0};
    onstack_sys_futex_wait(&guard.ends, ends, ends ? &poll : &rest);
  }
  onstack_own_leave();
  if (onstack_observe(&guard.ends) == GUARD_ENDS_ALONE) onstack_sys_sigprocmask(SIG_SETMASK, &guard.mask, NULL);
  return NULL;
}

void onstack_guard_make(const int32_t *keeper) {
  guard.keeper = keeper;
  /* The system's stack size. While another thread is in exec the kernel makes no thread. */
  for (uint32_t i = 0; onstack_preload_thread(0, guard_main, &guard.mask) != 0 && i < GUARD_TRIES; i++)
    onstack_sys_sleep(GUARD_POLL_NS);
}

void onstack_guard_end(bool alone) {
  onstack_publish(&guard.ends, alone ? GUARD_ENDS_ALONE : GUARD_ENDS);
  onstack_sys_futex_wake(&guard.ends);
}

void onstack_guard_forget(void) { memset(&guard, 0, sizeof(guard)); }
