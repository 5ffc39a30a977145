/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/proc_stat.h"

#include "base/clock_ns.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CLOCK_BOOTTIME /* macOS, which has no /proc either */
#define CLOCK_BOOTTIME CLOCK_MONOTONIC
#endif

#define PROC_STAT_TO_START 19 /* from the state (3) to starttime (22) */

const char *onstack_proc_stat_state(const char *line) {
  const char *end = strrchr(line, ')');
  return end && end[1] == ' ' && end[2] != 0 ? end + 2 : NULL;
}

uint64_t onstack_proc_stat_age_ns(const char *state) {
  const char *at = state;
  for (int field = 0; at && field < PROC_STAT_TO_START; field++) at = strchr(at + 1, ' ');
  const long rate = sysconf(_SC_CLK_TCK);
  if (!at || rate <= 0) return 0;
  const uint64_t began_ns = strtoull(at, NULL, 10) * (1000000000u / (uint64_t)rate),
                 now_ns = onstack_clock_ns(CLOCK_BOOTTIME);
  return now_ns > began_ns ? now_ns - began_ns : 0;
}
