/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/drain/thread.h"

#include "platform/atomics.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/signal/own_threads.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

static const struct onstack_timespec drain_interval = {0, 100000000};

static void *drain_thread_main(void *argument) {
  ONSTACK_UNCANCELLED; /* as in the other threads that call the host */
  onstack_drain_thread *drain = argument;
  if (drain->unblocked_signal) {
    onstack_kernel_sigset set = ONSTACK_SIGBIT(drain->unblocked_signal);
    onstack_sys_sigprocmask(SIG_UNBLOCK, &set, NULL);
  }
  onstack_own_enter();
  ONSTACK_CHAIN_THREAD_BEGINS();
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)drain->name);
  onstack_publish(&drain->ready, 1u);
  onstack_sys_futex_wake(&drain->ready);
  while (!onstack_observe(&drain->quit)) {
    onstack_exchange(drain->wake, 0u); /* before the work: a request that comes during it is not lost */
    struct onstack_timespec pause = {0, (int64_t)drain->work(drain->data)};
    onstack_own_account();
    if (!onstack_observe(&drain->quit)) onstack_sys_futex_wait(drain->wake, 0, &pause);
  }
  drain->work(drain->data);
  onstack_own_leave();
  return NULL;
}

int onstack_drain_thread_start(onstack_drain_thread *drain) {
  const onstack_kernel_sigset every = onstack_own_mask();
  onstack_kernel_sigset old;
  drain->quit = drain->ready = 0;
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &old) == 0; /* refused: there is nothing to put back */
  onstack_own_expect(1);
  onstack_loader_enter();
  int result = pthread_create(&drain->thread, NULL, drain_thread_main, drain);
  onstack_loader_leave();
  if (result != 0) onstack_own_expect(-1);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &old, NULL);
  if (result != 0) return -result;
  while (onstack_observe(&drain->ready) == 0) {
    onstack_sys_futex_wait(&drain->ready, 0, &drain_interval);
    /* A filter that the caller has, too, has killed it in its first calls. */
    if (onstack_observe(&drain->ready) == 0 && pthread_tryjoin_np(drain->thread, NULL) == 0) return -EPERM;
  }
  return 0;
}

void onstack_drain_thread_dismiss(onstack_drain_thread *drain) {
  onstack_publish(&drain->quit, 1u);
  onstack_exchange(drain->wake, 1u);
  onstack_sys_futex_wake(drain->wake);
}

void onstack_drain_thread_stop(onstack_drain_thread *drain) {
  onstack_drain_thread_dismiss(drain);
  if (pthread_equal(pthread_self(), drain->thread))
    drain->work(drain->data);
  else
    pthread_join(drain->thread, NULL);
}
