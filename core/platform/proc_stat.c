/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/proc_stat.h"

#include "platform/clock_ns.h"
#include "platform/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CLOCK_BOOTTIME /* macOS, which has no /proc either */
#define CLOCK_BOOTTIME CLOCK_MONOTONIC
#endif

/* Fields behind the state, which is the third. */
#define PROC_STAT_START_TIME 19
#define PROC_STAT_START_STACK 25

const char *onstack_proc_stat_state(const char *line) {
  const char *end = strrchr(line, ')');
  return end && end[1] == ' ' && end[2] != 0 ? end + 2 : NULL;
}

static const char *proc_stat_field(const char *state, int number) {
  const char *at = state;
  for (int field = 0; at && field < number; field++) at = strchr(at + 1, ' ');
  return at;
}

uint64_t onstack_proc_stat_main_sp(void) {
  char line[1024], path[48];
  /* The first thread's says nothing once that thread has ended. */
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", onstack_sys_gettid());
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, line, sizeof(line) - 1);
  close(fd);
  line[got > 0 ? got : 0] = 0;
  const char *at = proc_stat_field(onstack_proc_stat_state(line), PROC_STAT_START_STACK);
  return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t onstack_proc_stat_age_ns(const char *state) {
  const char *at = proc_stat_field(state, PROC_STAT_START_TIME);
  const long rate = sysconf(_SC_CLK_TCK);
  if (!at || rate <= 0) return 0;
  const uint64_t began_ns = strtoull(at, NULL, 10) * (1000000000u / (uint64_t)rate),
                 now_ns = onstack_clock_ns(CLOCK_BOOTTIME);
  return now_ns > began_ns ? now_ns - began_ns : 0;
}
