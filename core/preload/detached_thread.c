/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/detached_thread.h"

#include "platform/loader.h"
#include "sampler/signal/own_threads.h"

#include <pthread.h>
#include <signal.h>

static int detached_thread_create(size_t stack_bytes, void *(*run)(void *)) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes > 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  onstack_loader_enter();
  int error = pthread_create(&thread, &attributes, run, NULL);
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
