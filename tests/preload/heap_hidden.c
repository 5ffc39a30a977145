/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with an allocator of its own, under a name of its own: heap profiles do not see its blocks, and say so. With the
   name of a file, it is killed once that file is there. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef ALLOCATE
#define ALLOCATE shop_je_malloc
#endif

__attribute__((visibility("hidden"), noinline)) void *ALLOCATE(size_t size) {
  static char *block;
  static size_t used = 1 << 20;
  if (used + size > 1 << 20) {
    block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    used = 0;
  }
  used += size;
  return block == MAP_FAILED ? NULL : block + used - size;
}

/* Only called here: it is no allocator of this program's. */
extern void *mi_malloc(size_t size) __attribute__((weak));

int main(int count, char **words) {
  for (volatile size_t i = 0; i < 1000; i++) memset(ALLOCATE(500 + i), 1, 500);
  char *seen = mi_malloc ? mi_malloc(100) : malloc(100);
  memset(seen, 1, 100);
  while (count > 1) {
    if (access(words[1], F_OK) == 0) raise(SIGKILL);
    usleep(20000);
  }
  return seen[99] != 1;
}
