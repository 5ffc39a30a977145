/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program with Go inside (c-archive): archive <work> <seconds> <frequency> <file>. */
#include "../recorder/recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern int RunWork(char *name, int milliseconds);

static char *work;
static int milliseconds;

static void *run(void *unused) {
  (void)unused;
  return RunWork(work, milliseconds) == 0 ? NULL : &work;
}

int main(int argc, char **argv) {
  pthread_t thread;
  void *failed;
  if (argc != 5) return 2;
  work = argv[1];
  milliseconds = (int)(atof(argv[2]) * 1000);
  int result = recorder_start((unsigned)atoi(argv[3]));
  if (result < 0 || pthread_create(&thread, NULL, run, NULL) != 0) return 1;
  void *failed_here = run(NULL);
  pthread_join(thread, &failed);
  result = recorder_stop(argv[4]);
  if (result < 0 || failed || failed_here) {
    fprintf(stderr, "archive: %d\n", result);
    return 1;
  }
  return 0;
}
