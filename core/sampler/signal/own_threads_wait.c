/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/own_threads.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/sys.h"

#include <errno.h>

#define OWN_CLOSE_NS 100000000u /* for all of them together */

void onstack_own_wait_closed(int32_t signal) {
  const int32_t self = onstack_sys_gettid();
  const uint64_t until = onstack_monotonic_ns() + OWN_CLOSE_NS;
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    const onstack_own_thread *own = &onstack_own_threads[i];
    if (onstack_load_relaxed(&own->tid) == self) onstack_own_close();
    while (onstack_dekker_load(&own->open) == signal && onstack_monotonic_ns() < until) onstack_sys_sleep(50000);
  }
}

bool onstack_own_forget_killed(void) {
  static int32_t killed_in; /* the process where one has been killed: a child of fork has others */
  const int32_t process = onstack_sys_getpid();
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    int32_t tid = onstack_load_relaxed(&onstack_own_threads[i].tid);
    if (tid == 0 || onstack_sys_call3(SYS_tgkill, process, tid, 0) != -ESRCH) continue;
    if (onstack_cas(&onstack_own_threads[i].tid, &tid, 0)) onstack_store_relaxed(&killed_in, process);
  }
  return onstack_load_relaxed(&killed_in) == process;
}
