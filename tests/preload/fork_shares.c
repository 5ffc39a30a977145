/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What children of a profiled process find in the memory that they share with it.
 *
 * "secret": whether a child finds bytes of its own stack there, and so those of all others. Prints in how many children it did.
 * The second argument is a library whose unwind rules take the profiler a while to derive.
 * "weight": each child looks for its thread's id, and writes large numbers around it.
 * Without memory that is shared: status 1.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 12, FOUND = 7, NOTHING_SHARED = 8 };

typedef struct shared_memory {
  uint8_t *low;
  size_t bytes;
} shared_memory;

static double used(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The one large mapping that is shared. */
static shared_memory shared_find(void) {
  char line[512];
  uint64_t low, high;
  shared_memory found = {NULL, 0};
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && !found.low && fgets(line, sizeof(line), maps))
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " rw-s", &low, &high) == 2 && strstr(line, " rw-s ") && high - low > 1u << 19)
      found = (shared_memory){(uint8_t *)(uintptr_t)low, high - low};
  if (maps) fclose(maps);
  return found;
}

static int child_with_secret(int (*work)(int)) {
  volatile char secret[64];
  char pattern[64];
  const size_t length = (size_t)snprintf(pattern, sizeof(pattern), "%s-%d-%s", "SECRET", (int)getpid(), "of-the-stack");
  for (size_t i = 0; i <= length; i++) secret[i] = pattern[i];
  for (const double end = used() + 0.015; used() < end;) work(20000);
  const shared_memory memory = shared_find();
  if (!memory.low) return NOTHING_SHARED;
  return memmem(memory.low, memory.bytes, pattern, length) && secret[0] ? FOUND : 0;
}

static int child_that_forges(void) {
  while (used() < 0.012)
    ;
  const shared_memory memory = shared_find();
  if (!memory.low) return NOTHING_SHARED;
  uint32_t *words = (uint32_t *)(void *)memory.low;
  for (size_t i = 4; i < memory.bytes / sizeof(*words); i++)
    if (words[i] == (uint32_t)gettid()) /* four: the thread's id may be anywhere among the other numbers */
      for (size_t back = 1; back <= 4; back++) words[i - back] = 3000000;
  return 0;
}

int main(int count, char **arguments) {
  int found = 0, missed = 0;
  if (count < 2) return 97;
  while (used() < 0.3)
    ;
  for (int i = 0; i < CHILDREN; i++) {
    /* Each time anew: its rules are derived each time. */
    void *library = count > 2 ? dlopen(arguments[2], RTLD_NOW) : NULL;
    int (*const work)(int) = library ? (int (*)(int))dlsym(library, "large_function") : NULL;
    if (count > 2 && !work) return 96;
    usleep(20000); /* the profiler finds it */
    const pid_t child = fork();
    if (child == 0) _exit(work ? child_with_secret(work) : child_that_forges());
    int status = 0;
    waitpid(child, &status, 0);
    found += WEXITSTATUS(status) == FOUND;
    missed += WEXITSTATUS(status) == NOTHING_SHARED;
    if (library) dlclose(library);
  }
  printf("%d\n", found);
  return missed > CHILDREN / 2;
}
