/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Works until a session would have begun, or was refused, and then makes a thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *run(void *argument) { return argument; }

int main(void) {
  struct timespec now;
  pthread_t thread;
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (now.tv_nsec < 100000000);
  sleep(1);
  const int error = pthread_create(&thread, NULL, run, NULL);
  if (error == 0) pthread_join(thread, NULL);
  printf("%s\n", strerror(error));
  return error != 0;
}
