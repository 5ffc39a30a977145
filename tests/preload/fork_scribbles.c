/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children that write over the memory in which they and their parent's profiler keep their first ticks. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void burn(double seconds) {
  struct timespec now;
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < seconds);
}

/* The one large mapping that is shared. */
static uint32_t *shared(size_t *words) {
  char line[512];
  uint64_t low, high;
  FILE *maps = fopen("/proc/self/maps", "r");
  uint32_t *found = NULL;
  while (maps && !found && fgets(line, sizeof(line), maps))
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " rw-s", &low, &high) == 2 && strstr(line, " rw-s ") && high - low > 1u << 19) {
      found = (uint32_t *)(uintptr_t)low;
      *words = (high - low) / sizeof(uint32_t);
    }
  if (maps) fclose(maps);
  return found;
}

/* Small numbers are states, counts and numbers of stacks; large ones sizes and addresses. */
static uint32_t word(unsigned *seed) {
  switch (rand_r(seed) % 4) {
  case 0:
    return 2;
  case 1:
    return (uint32_t)rand_r(seed) % 300;
  case 2:
    return (uint32_t)rand_r(seed);
  default:
    return UINT32_MAX - (uint32_t)rand_r(seed) % 300;
  }
}

static int scribble(unsigned seed) {
  size_t words = 0;
  uint32_t *memory = shared(&words);
  if (!memory) return 1;
  burn(0.004);
  for (int i = 0; i < 20; i++) memory[12 + (size_t)rand_r(&seed) % 1024] = 2; /* states, behind some counters */
  for (int i = 0; i < 20000; i++) memory[12 + (size_t)rand_r(&seed) % (i % 2 ? words - 12 : words / 8)] = word(&seed);
  return 0;
}

int main(void) {
  int failed = 0;
  for (unsigned i = 0; i < 150; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(scribble(i));
    int status = 0;
    waitpid(child, &status, 0);
    failed += i > 50 && status != 0; /* the first come before their parent's session */
    if (i % 10 == 0) usleep(50000);
  }
  burn(0.3);
  printf("%d\n", failed);
  return 0;
}
