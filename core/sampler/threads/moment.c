/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/threads/moment.h"

#include "platform/sys.h"

#include <sched.h>

#define MOMENT_OFFERS 64u
#define MOMENT_NS 50000

void onstack_moment(uint32_t round) {
  if (round < MOMENT_OFFERS)
    sched_yield();
  else
    onstack_sys_sleep(MOMENT_NS);
}
