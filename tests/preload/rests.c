/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Works for a moment, less than a session needs, and then sleeps in poll(). Says how many calls were interrupted. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

int main(void) {
  struct timespec now, begun;
  int interrupted = 0;
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (now.tv_sec == 0 && now.tv_nsec < 1500000);
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do {
    interrupted += poll(NULL, 0, 1000) < 0 && errno == EINTR;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - begun.tv_sec < 15);
  return printf("%d\n", interrupted) < 0;
}
