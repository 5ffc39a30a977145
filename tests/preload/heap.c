/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program whose counts of its own allocations are exact: prints what it has allocated and what it keeps, by function. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static void *volatile kept[100000];
static int keeps;

static void *of_a_constructor;
__attribute__((constructor)) static void before_main(void) { of_a_constructor = malloc(100); }

APART static void keep(void *block) {
  if (!block) abort();
  memset(block, 1, 16);
  kept[keeps++] = block;
}

APART static void leak_malloc(void) { keep(malloc(1000)); }
APART static void leak_calloc(void) { keep(calloc(10, 100)); }
APART static void leak_realloc(void) { keep(realloc(malloc(10), 1000)); }
APART static void leak_aligned(void) {
  void *block = NULL;
  if (posix_memalign(&block, 64, 1000) != 0 || (uintptr_t)block % 64 != 0) abort();
  keep(block);
  void *volatile aligned = aligned_alloc(8192, 8192);
  if ((uintptr_t)aligned % 8192 != 0) abort();
  free(aligned);
  void *volatile least = memalign(1, 700); /* less than any block is aligned to */
  free(least);
  void *volatile odd = memalign(48, 700); /* glibc rounds it up */
  free(odd);
}
/* C23's, which few libcs have: the preload brings them. */
static void (*free_by_size)(void *, size_t);
static void (*free_by_alignment)(void *, size_t, size_t);
static void look_up_sized(void) {
  *(void **)&free_by_size = dlsym(RTLD_DEFAULT, "free_sized");
  *(void **)&free_by_alignment = dlsym(RTLD_DEFAULT, "free_aligned_sized");
  if (!free_by_size || !free_by_alignment) abort();
}
APART static void ends_by_size(void) {
  void *volatile block = malloc(1000), *volatile aligned = aligned_alloc(256, 1024);
  free_by_size(block, 1000);
  free_by_alignment(aligned, 256, 1024);
  free_by_size(NULL, 0);
  free_by_alignment(NULL, 64, 0);
}
APART static void churn(void) {
  char *block = calloc(1, 500);
  for (int i = 0; i < 500; i++)
    if (block[i]) abort();
  memset(block, 7, 500);
  block = realloc(block, 3000);
  for (int i = 0; i < 500; i++)
    if (block[i] != 7) abort();
  if (malloc_usable_size(block) < 3000) abort();
  block = reallocarray(block, 10, 10);
  for (int i = 0; i < 100; i++)
    if (block[i] != 7) abort();
  free(block);
  free(strdup("text"));
}

APART static void wrong(void) {
  void *block = NULL;
  if (posix_memalign(&block, 3, 10) != EINVAL) abort();
  volatile size_t huge = SIZE_MAX / 2;
  if (calloc(huge, 3) || errno != ENOMEM) abort();
  if (reallocarray(NULL, huge, 3) || errno != ENOMEM) abort();
  errno = 77;
  free(NULL);
  free(malloc(1));
  if (errno != 77) abort();
}

static void key_ends(void *block) {
  free(block);
  free(malloc(300));
}
static pthread_key_t key;
static void *thread(void *unused) {
  (void)unused;
  pthread_setspecific(key, malloc(50));
  for (int i = 0; i < 3000; i++) churn();
  return NULL;
}

int main(int count, char **arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 1000;
  const int others = count > 2 ? atoi(arguments[2]) : 0;
  pthread_t threads[16];
  free(of_a_constructor);
  look_up_sized();
  pthread_key_create(&key, key_ends);
  for (int i = 0; i < others; i++) pthread_create(&threads[i], NULL, thread, NULL);
  for (int i = 0; i < rounds; i++) {
    leak_malloc();
    leak_calloc();
    leak_realloc();
    leak_aligned();
    ends_by_size();
    if (count <= 3) wrong(); /* not every allocator says ENOMEM */
  }
  for (int i = 0; i < others; i++) pthread_join(threads[i], NULL);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 1000; i++) churn();
    for (int i = 0; i < keeps; i++) free(kept[i]);
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) return 3;
  for (int i = 0; i < keeps; i += 2) free(kept[i]);
  printf("%d\n", keeps);
  return 0;
}
