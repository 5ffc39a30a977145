/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/moment.h"

#include <sched.h>
#include <time.h>

#define MOMENT_OFFERS 64u
#define MOMENT_NS 50000

void onstack_moment(uint32_t round) {
  const struct timespec pause = {0, MOMENT_NS};
  if (round < MOMENT_OFFERS)
    sched_yield();
  else
    nanosleep(&pause, NULL);
}
