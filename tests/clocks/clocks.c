/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "clocks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int32_t thread_id(void) { return (int32_t)syscall(SYS_gettid); }

int perf_open(const perf_clock *clock) {
  struct perf_event_attr attributes;
  struct f_owner_ex owner = {F_OWNER_TID, thread_id()};
  memset(&attributes, 0, sizeof(attributes));
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = clock->config;
  attributes.sample_period = clock->period_ns;
  attributes.disabled = 1;
  attributes.exclude_kernel = clock->no_kernel;
  attributes.inherit = clock->inherit;
  attributes.wakeup_events = 1;
  int file = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (file < 0) return -errno;
  if (fcntl(file, F_SETOWN_EX, &owner) == 0 && fcntl(file, F_SETSIG, clock->signal) == 0 &&
      fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_ASYNC) == 0)
    return file;
  int error = errno;
  close(file);
  return -error;
}

void perf_switch(int file, bool on) { ioctl(file, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0); }

double seconds_of(int clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void burn_user(double cpu_seconds) {
  double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + cpu_seconds;
  do
    for (volatile int i = 0; i < 20000; i++) continue;
  while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end);
}

void burn_kernel(double cpu_seconds) {
  static char buffer[1 << 16]; /* what is in it does not matter */
  double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + cpu_seconds;
  int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  do
    for (int i = 0; i < 50; i++)
      if (read(zero, buffer, sizeof(buffer)) < 0) break;
  while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end);
  close(zero);
}
