/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/interpose_thread.h"

#include "platform/loader.h"
#include "platform/sys.h"
#include "sampler/modules/go_runtime.h"
#include "sampler/signal/own_threads.h"
#include "preload/host_action.h"
#include "preload/next.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

typedef int (*interpose_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static bool interpose_opens; /* written in the constructor */

void onstack_new_threads_take_ticks(void) { interpose_opens = true; }

/* What the library's own calls of pthread_create are bound to (ld --wrap): its threads block SIGPROF. */
ONSTACK_INTERNAL int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                                           void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  interpose_create next = (interpose_create)onstack_next(ONSTACK_NEXT_PTHREAD_CREATE);
  return next ? next(thread, attributes, run, argument) : ENOSYS;
}

/* A host's own handler for SIGPROF must not run in a thread that the host has blocked it in. Nor must Go's, before it has made
   the thread its own; Go unblocks the signal itself. */
static bool interpose_may_open(void) {
  return interpose_opens && onstack_host_action_is_ours(SIGPROF) && !onstack_host_action_has_handler() &&
         !onstack_go_runtime_is_present();
}

/* The new thread inherits the mask. */
ONSTACK_PRELOAD_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                                       void *argument) {
  const onstack_kernel_sigset ticks = ONSTACK_SIGBIT(SIGPROF);
  onstack_kernel_sigset mask = 0;
  const bool opened =
      interpose_may_open() && onstack_sys_sigprocmask(SIG_UNBLOCK, &ticks, &mask) == 0 && (mask & ticks) != 0;
  const int error = __wrap_pthread_create(thread, attributes, run, argument);
  if (opened) onstack_sys_sigprocmask(SIG_BLOCK, &ticks, NULL);
  return error;
}

/* ---- the preload's own threads ---- */

static int detached_thread_create(size_t stack_bytes, void *(*run)(void *)) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes > 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  onstack_loader_enter();
  int error = __wrap_pthread_create(&thread, &attributes, run, NULL); /* by name: ld wraps only what other files call */
  onstack_loader_leave();
  pthread_attr_destroy(&attributes);
  return error;
}

int onstack_preload_thread(size_t stack_bytes, void *(*run)(void *), onstack_kernel_sigset *mask) {
  const onstack_kernel_sigset every = onstack_own_mask();
  onstack_kernel_sigset old = 0;
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &old) == 0; /* refused: there is nothing to put back */
  if (mask) *mask = old;
  onstack_own_expect(1);
  int error = detached_thread_create(stack_bytes, run);
  if (error != 0)
    error = detached_thread_create(0, run); /* a host with more thread-local storage than that: the system's own size */
  if (error != 0) onstack_own_expect(-1);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &old, NULL);
  return error;
}
