/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/own_threads.h"

#include "base/atomics.h"
#include "base/sys.h"

#include <time.h>

#define OWN_CLOSE_NS 100000000u /* for all of them together */

static uint64_t own_now_ns(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void onstack_own_wait_closed(int32_t signal) {
  const struct timespec pause = {0, 50000};
  const int32_t self = onstack_sys_gettid();
  const uint64_t until = own_now_ns() + OWN_CLOSE_NS;
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    const onstack_own_thread *own = &onstack_own_threads[i];
    if (onstack_load_relaxed(&own->tid) == self) onstack_own_close();
    while (onstack_dekker_load(&own->open) == signal && own_now_ns() < until) nanosleep(&pause, NULL);
  }
}
