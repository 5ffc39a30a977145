/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/own_threads.h"

#include "base/atomics.h"
#include "base/sys.h"

#include <time.h>

#define OWN_CLOSE_ROUNDS 1000u /* of 50 us and more */

void onstack_own_wait_closed(int32_t signal) {
  const struct timespec pause = {0, 50000};
  const int32_t self = onstack_sys_gettid();
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    const onstack_own_thread *own = &onstack_own_threads[i];
    if (onstack_load_relaxed(&own->tid) == self) onstack_own_close();
    for (uint32_t rounds = 0; rounds < OWN_CLOSE_ROUNDS && onstack_dekker_load(&own->open) == signal; rounds++)
      nanosleep(&pause, NULL);
  }
}
