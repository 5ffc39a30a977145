/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libc's clocks in nanoseconds. Ordinary threads; the handler asks the kernel (entry_handler.c). */
#ifndef ONSTACK_PLATFORM_CLOCK_NS_H
#define ONSTACK_PLATFORM_CLOCK_NS_H

#include <stdint.h>
#include <time.h>

static inline __attribute__((unused)) uint64_t onstack_clock_ns(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline __attribute__((unused)) uint64_t onstack_monotonic_ns(void) { return onstack_clock_ns(CLOCK_MONOTONIC); }

#endif
