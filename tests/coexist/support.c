/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "support.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int failures;

bool check(bool good, const char *name, const char *why, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(text, sizeof(text), why, arguments);
  va_end(arguments);
  printf("%s %s: %s\n", good ? "ok" : "not ok", name, text);
  fflush(stdout);
  failures += !good;
  return good;
}

void skip(const char *name, const char *why) {
  printf("skip %s: %s\n", name, why);
  fflush(stdout);
}

int check_status(void) { return failures != 0; }

static double clock_seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double thread_cpu(void) { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }
double process_cpu(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

void burn(double cpu_seconds) {
  double end = thread_cpu() + cpu_seconds;
  do
    for (volatile int i = 0; i < 20000; i++) continue;
  while (thread_cpu() < end);
}

raw_action current_action(void) {
  raw_action action = {0, 0, 0, 0};
  syscall(SYS_rt_sigaction, SIGPROF, NULL, &action, sizeof(action.mask));
  return action;
}

bool same_action(const raw_action *a, const raw_action *b) { return memcmp(a, b, sizeof(*a)) == 0; }
