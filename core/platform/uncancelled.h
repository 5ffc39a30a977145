/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_cancel on a thread that is inside this library. open, read, pthread_join and most of stdio are cancellation points:
 * a thread that is cancelled in one of them ends, keeps our locks, and leaks memory and descriptors. Therefore each public
 * function that reaches a cancellation point while it holds something begins with ONSTACK_UNCANCELLED. The macro disables
 * cancellation until the function returns. A cancellation request that arrives meanwhile stays pending, and takes effect at the
 * caller's next cancellation point.
 */
#ifndef ONSTACK_PLATFORM_UNCANCELLED_H
#define ONSTACK_PLATFORM_UNCANCELLED_H

#include <pthread.h>

static inline __attribute__((unused)) int onstack_uncancelled_begin(void) {
  int before = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

static inline __attribute__((unused)) void onstack_uncancelled_end(const int *before) {
  pthread_setcancelstate(*before, NULL);
}

/* May be nested. A callback of the host that leaves by pthread_exit is not supported; nothing is put back then. */
#define ONSTACK_UNCANCELLED                                                                                                 \
  const int onstack_uncancelled_before __attribute__((cleanup(onstack_uncancelled_end), unused)) =                          \
      onstack_uncancelled_begin()

#endif
