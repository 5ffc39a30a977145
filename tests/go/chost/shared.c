/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A C program that loads Go while it is being sampled (c-shared): shared <work> <seconds> <frequency> <file>, with the
 * library's path in HOST_LIBRARY.
 */
#include "../recorder/recorder.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  const char *path = getenv("HOST_LIBRARY");
  if (argc != 5 || !path || recorder_start((unsigned)atoi(argv[3])) < 0) return 2;
  for (double end = now() + 0.3; now() < end;) {
  }
  void *library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "shared: %s\n", dlerror());
    return 1;
  }
  int (*run)(char *, int);
  *(void **)&run = dlsym(library, "RunWork");
  if (!run || run(argv[1], (int)(atof(argv[2]) * 1000)) != 0) return 1;
  int result = recorder_stop(argv[4]);
  if (result < 0) fprintf(stderr, "shared: %d\n", result);
  return result < 0;
}
