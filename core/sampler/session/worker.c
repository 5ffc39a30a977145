/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/session/worker.h"

#include "platform/atomics.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/signal/own_threads.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

static const struct onstack_timespec worker_interval = {0, 100000000};

static void *worker_main(void *argument) {
  ONSTACK_UNCANCELLED; /* as in the other threads that call the host */
  onstack_worker *worker = argument;
  if (worker->unblocked_signal) {
    onstack_kernel_sigset set = ONSTACK_SIGBIT(worker->unblocked_signal);
    onstack_sys_sigprocmask(SIG_UNBLOCK, &set, NULL);
  }
  onstack_own_enter();
  ONSTACK_CHAIN_THREAD_BEGINS();
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)worker->name);
  onstack_publish(&worker->ready, 1u);
  onstack_sys_futex_wake(&worker->ready);
  while (!onstack_observe(&worker->quit)) {
    onstack_exchange(worker->wake, 0u); /* before the work: a request that comes during it is not lost */
    struct onstack_timespec pause = {0, (int64_t)worker->work(worker->data)};
    onstack_own_account();
    if (!onstack_observe(&worker->quit)) onstack_sys_futex_wait(worker->wake, 0, &pause);
  }
  worker->work(worker->data);
  onstack_own_leave();
  return NULL;
}

int onstack_worker_start(onstack_worker *worker) {
  const onstack_kernel_sigset every = onstack_own_mask();
  onstack_kernel_sigset old;
  worker->quit = worker->ready = 0;
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &old) == 0; /* refused: there is nothing to put back */
  onstack_own_expect(1);
  onstack_loader_enter();
  int result = pthread_create(&worker->thread, NULL, worker_main, worker);
  onstack_loader_leave();
  if (result != 0) onstack_own_expect(-1);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &old, NULL);
  if (result != 0) return -result;
  while (onstack_observe(&worker->ready) == 0) {
    onstack_sys_futex_wait(&worker->ready, 0, &worker_interval);
    /* A filter that the caller has, too, has killed it in its first calls. */
    if (onstack_observe(&worker->ready) == 0 && pthread_tryjoin_np(worker->thread, NULL) == 0) return -EPERM;
  }
  return 0;
}

int onstack_worker_start_for(onstack_worker *worker, const char *name, uint64_t (*work)(void *data), void *data) {
  *worker = (onstack_worker){.name = name, .wake = &worker->own_wake, .work = work, .data = data};
  const int result = onstack_worker_start(worker);
  if (result < 0) worker->work = NULL;
  return result;
}

void onstack_worker_dismiss(onstack_worker *worker) {
  if (!worker->work) return;
  onstack_publish(&worker->quit, 1u);
  onstack_exchange(worker->wake, 1u);
  onstack_sys_futex_wake(worker->wake);
}

void onstack_worker_stop(onstack_worker *worker) {
  if (!worker->work) return;
  onstack_worker_dismiss(worker);
  if (pthread_equal(pthread_self(), worker->thread))
    worker->work(worker->data);
  else
    pthread_join(worker->thread, NULL);
}
