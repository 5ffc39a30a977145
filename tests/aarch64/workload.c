/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is stepped through: frames of each kind that compilers make, and libc. */
#include "steps.h"

#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile uint64_t sink;

__attribute__((noinline, noclone)) static uint64_t step_leaf(uint64_t x) { return x * 7 + sink; }
__attribute__((noinline, noclone)) static uint64_t step_frame(uint64_t x) {
  volatile uint64_t words[6] = {x};
  return step_leaf(words[0]) + step_leaf(x + 1) + words[3];
}
__attribute__((noinline, noclone)) static uint64_t step_large(uint64_t x) { /* several instructions move SP */
  volatile uint64_t words[9000];
  words[x % 9000] = x;
  return step_frame(words[x % 9000]) + 1;
}
__attribute__((noinline, noclone)) static uint64_t step_alloca(uint64_t x) { /* the CFA is x29's */
  volatile uint8_t *bytes = __builtin_alloca(16 + x % 100);
  bytes[x % 16] = (uint8_t)x;
  return step_frame(x) + bytes[x % 16];
}
__attribute__((noinline, noclone)) static uint64_t step_deep(uint64_t depth) {
  volatile uint64_t here = depth; /* no loop in place of the recursion */
  return depth == 0 ? step_frame(1) : step_deep(here - 1) * 3 + here;
}
__attribute__((noinline, noclone)) static double step_float(double x) { return step_leaf((uint64_t)x) * 0.5 + x; }
static int step_compare(const void *a, const void *b) { return *(const int *)a - (int)step_leaf(0) - *(const int *)b; }
static void step_on_signal(int signal) { sink += step_frame((uint64_t)signal); }

__attribute__((noinline, noclone)) void steps_workload(void) {
  char text[200];
  int numbers[24];
  signal(SIGUSR1, step_on_signal);
  for (int i = 0; i < 24; i++) numbers[i] = (i * 37) % 23;
  sink += step_large(5) + step_alloca(77) + step_deep(40) + (uint64_t)step_float(3.5);
  qsort(numbers, 24, sizeof(numbers[0]), step_compare);
  snprintf(text, sizeof(text), "%d %s %.3f %lx", numbers[3], "text", 1.25, (unsigned long)sink);
  for (int i = 0; i < 6; i++) {
    char *block = malloc((size_t)100 << i);
    memset(block, i, (size_t)100 << i);
    memcpy(text, block, 100);
    free(block);
  }
  for (int i = 0; i < 3; i++) {
    /* In the vDSO. Its clocks proper would never end: they start over when the kernel's tick comes between. */
    struct timespec resolution;
    clock_getres(CLOCK_MONOTONIC, &resolution);
    sink += (uint64_t)thread_cpu() + (uint64_t)resolution.tv_nsec;
  }
  raise(SIGUSR1);
  sink += strtoul("12345", NULL, 10) + strlen(text);
}
