/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Allocations at the edges: PROGRAM CASE. Each case ends by itself if something is wrong, and prints what must be the same with
   and without a heap profile. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define MIB ((size_t)1 << 20)

static void fail(const char *what) {
  fprintf(stderr, "heap_edges: %s\n", what);
  abort();
}

static void check(int right, const char *what) {
  if (!right) fail(what);
}

/* ---- large blocks ---- */

static size_t of_status(const char *key) {
  char line[256];
  unsigned long kibibytes = 0;
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, key, strlen(key)) == 0) sscanf(line + strlen(key), ": %lu", &kibibytes);
  if (file) fclose(file);
  return (size_t)kibibytes << 10;
}

static void *volatile large_kept;

APART static void large_zeroed(void) {
  const size_t before = of_status("VmRSS"), size = 512 * MIB;
  unsigned char *block = calloc(size / 64, 64);
  check(!!block, "calloc");
  for (size_t i = 0; i < size; i += 4096) check(block[i] == 0, "memory that is not zero");
  /* an allocator that touches it itself is no fault of ours: then the run without has said so too */
  printf("zeroed memory is %s\n", of_status("VmRSS") < before + 64 * MIB ? "not there" : "there");
  large_kept = block;
}

APART static void large_grown(void) {
  const size_t before = of_status("VmRSS");
  unsigned char *block = malloc(MIB);
  memset(block, 1, MIB);
  for (size_t i = 2; i <= 128; i++) {
    block = realloc(block, i * MIB);
    check(!!block, "realloc");
    memset(block + (i - 1) * MIB, (int)i, MIB);
  }
  for (size_t i = 1; i <= 128; i++) check(block[(i - 1) * MIB] == i && block[i * MIB - 1] == i, "bytes that have moved");
  printf("growing took %s\n", of_status("VmHWM") - before < 200 * MIB ? "its own size" : "more than its size");
  block = realloc(block, 200000);
  check(block && block[0] == 1 && block[199999] == 1, "a large block made smaller");
  large_kept = block;
}

/* From the allocator's own heap, not from a mapping: these begin anywhere. */
APART static void large_anywhere(void) {
  free(malloc(8 * MIB)); /* glibc maps larger blocks alone from now on */
  for (int round = 0; round < 20; round++) {
    unsigned char *block = malloc(150001), *beside = malloc(24), *zero;
    memset(block, 5, 150001);
    block = realloc(block, 900001);
    check(block && block[150000] == 5, "bytes that have moved inside the heap");
    memset(block, 6, 900001);
    free(block);
    zero = calloc(300, 1000);
    for (size_t i = 0; i < 300000; i++) check(zero[i] == 0, "memory of the heap that is not zero");
    free(zero);
    free(beside);
  }
}

/* However many of them come and go, as many as are there take as much memory. */
APART static void small_churn(void) {
  static void *blocks[20000];
  const size_t before = of_status("VmRSS");
  unsigned seed = 1;
  for (int i = 0; i < 800000; i++) {
    void **place = &blocks[rand_r(&seed) % 20000];
    free(*place);
    *place = malloc(64);
    memset(*place, 1, 64);
  }
  const size_t more = of_status("VmRSS") - before;
  printf("small blocks lie %s\n", more < 16 * MIB ? "together" : "apart");
  for (int i = 0; i < 20000; i++) free(blocks[i]);
}

static void large(void) {
  small_churn();
  large_anywhere();
  large_grown();
  large_zeroed();
}

/* ---- what a thread's end runs ---- */

typedef void (*destructor)(void *);
extern int __cxa_thread_atexit_impl(destructor run, void *data, void *library) __attribute__((weak));
extern void *__dso_handle;
static pthread_key_t keys[3];
static int key_runs, late_runs;

APART static void key_ends(void *block) {
  memset(block, 1, 1000);
  free(block);
  const int run = __atomic_add_fetch(&key_runs, 1, __ATOMIC_RELAXED);
  if (run % 3 == 0) pthread_setspecific(keys[run % 2], malloc(1000)); /* it is run again for these */
  free(calloc(3, 300));
}

APART static void late(void *block) {
  block = realloc(block, 3000);
  free(block);
  __atomic_add_fetch(&late_runs, 1, __ATOMIC_RELAXED);
}

static void *thread_ends(void *unused) {
  for (int i = 0; i < 3; i++) pthread_setspecific(keys[i], malloc(1000));
  if (__cxa_thread_atexit_impl) __cxa_thread_atexit_impl(late, malloc(100), &__dso_handle);
  return unused;
}

static void threads(void) {
  pthread_t all[50];
  for (int i = 0; i < 3; i++) pthread_key_create(&keys[i], key_ends);
  for (int round = 0; round < 40; round++) {
    for (int i = 0; i < 50; i++) check(pthread_create(&all[i], NULL, thread_ends, NULL) == 0, "pthread_create");
    for (int i = 0; i < 50; i++) pthread_join(all[i], NULL);
  }
  check(key_runs >= 2000 * 3 && (!__cxa_thread_atexit_impl || late_runs == 2000), "destructors that ran");
  puts("2000 threads");
}

/* ---- a handler that allocates, on its own stack, while its thread does not ---- */

static volatile int handled;

APART static void handler_allocates(int signal) {
  const int saved = errno;
  void *block = malloc(500 + (size_t)signal);
  block = realloc(block, 2000);
  free(block);
  handled++;
  errno = saved;
}

APART static void handler_works(void) {
  while (handled < 300)
    for (volatile int i = 0; i < 1000; i++) continue;
}

static void handlers(void) {
  static char stack[1 << 16];
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
  struct sigaction action = {.sa_handler = handler_allocates, .sa_flags = SA_ONSTACK | SA_RESTART};
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  sigaltstack(&other, NULL);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  handler_works();
  setitimer(ITIMER_REAL, &never, NULL);
  puts("300 signals");
}

/* ---- what callers get wrong, or nearly ---- */

extern void *pvalloc(size_t size) __attribute__((weak)); /* not in musl */

static void tell(const char *what, size_t alignment, const void *block, int error) {
  size_t least = sizeof(void *);
  while (least < alignment) least *= 2;
  printf("%s %zu: %s %d\n", what, alignment,
         !block                          ? "none"
         : (uintptr_t)block % least == 0 ? "aligned"
                                         : "not aligned",
         error);
}

static void odd(void) {
  static const size_t alignments[] = {0, 1, 2, 3, 8, 24, 48, 64, 100, 4096, 5000, 8192, 65536};
  for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
    void *block = NULL;
    const size_t alignment = alignments[i];
    int error = posix_memalign(&block, alignment, 100);
    tell("posix_memalign", alignment, error ? NULL : block, error);
    if (error == 0) free(block);
    for (int repeat = 0; repeat < 100; repeat++) {
      errno = 0;
      block = memalign(alignment, 100);
      if (repeat == 0) tell("memalign", alignment, block, errno);
      if (block) check(malloc_usable_size(block) >= 100, "usable size of memalign");
      free(block);
      errno = 0;
      block = aligned_alloc(alignment, 8192);
      if (repeat == 0) tell("aligned_alloc", alignment, block, errno);
      if (block) memset(block, 1, 8192);
      free(block);
    }
  }
  void *page = valloc(1), *pages = pvalloc ? pvalloc(4097) : valloc(8192), *nothing = malloc(0),
       *none = realloc(malloc(10), 0);
  tell("valloc", 4096, page, 0);
  tell("pvalloc", 4096, pages, 0);
  check(malloc_usable_size(pages) >= 8192 && malloc_usable_size(NULL) == 0, "usable size");
  printf("malloc(0) %d, realloc to 0 %d\n", !!nothing, !!none);
  errno = 0;
  volatile size_t most = PTRDIFF_MAX;
  check(!malloc(most) && errno == ENOMEM && !(pvalloc && pvalloc(SIZE_MAX)) && !memalign(64, most), "too much");
  char *volatile stays = malloc(50), *volatile moved;
  memset(stays, 3, 50);
  moved = realloc(stays, most);
  check(!moved && stays[49] == 3, "a realloc that fails keeps the block");
  free(stays);
  free(page), free(pages), free(nothing);
}

/* ---- fork and exec in the middle, by the ways that run no handlers too ---- */

static void *forks_allocate(void *stop) {
  while (!*(volatile int *)stop) free(realloc(malloc(100), 5000));
  return NULL;
}

static void forks(char **arguments) {
  int stop = 0;
  pthread_t others[2];
  for (int i = 0; i < 2; i++) pthread_create(&others[i], NULL, forks_allocate, &stop);
  for (int i = 0; i < 60; i++) {
    int status;
    const pid_t child = i % 3 == 0 ? vfork() : fork();
    if (child == 0 && i % 3 == 0) _exit(0);
    if (child == 0) {
      for (int k = 0; k < 1000; k++) free(realloc(malloc(100), 5000));
      _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "a child");
  }
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(others[i], NULL);
  puts("forks");
  fflush(stdout);
  char *again[] = {arguments[0], (char *)(uintptr_t) "threads", NULL};
  void *volatile lost = malloc(1000);
  check(!!lost, "malloc");
  execv(arguments[0], again);
  fail("exec");
}

/* ---- the end of the process ---- */

static void at_end(void) {
  void *block = calloc(10, 1000);
  block = realloc(block, 20000);
  free(block);
  puts("at exit");
}

static void ends(void) {
  atexit(at_end);
  free(malloc(77));
}

/* glibc finds its heap broken, with the arena's lock taken, and the host's handler ends the process. */
APART static void before_the_end(void) { large_kept = malloc(1000); }

static void leave_at_once(int signal) { _exit(signal == SIGABRT ? 7 : 1); }

static void is_killed(void) {
  large_kept = calloc(1000, 1000);
  memset(large_kept, 1, 1000 * 1000);
  while (access("out", R_OK) != 0) usleep(10000); /* the profile so far */
  raise(SIGKILL);
}

static void breaks(void) {
  before_the_end();
  char *volatile last = malloc(100000);
  signal(SIGABRT, leave_at_once);
  *(size_t *)(void *)(last + malloc_usable_size(last)) = SIZE_MAX; /* of what is free behind it */
  for (int i = 0; i < 100; i++) last = malloc(100000);
  fail("a heap that is broken gives blocks");
}

int main(int count, char **arguments) {
  const char *chosen = count > 1 ? arguments[1] : "";
  if (strcmp(chosen, "large") == 0) large();
  if (strcmp(chosen, "threads") == 0) threads();
  if (strcmp(chosen, "handlers") == 0) handlers();
  if (strcmp(chosen, "odd") == 0) odd();
  if (strcmp(chosen, "forks") == 0) forks(arguments);
  if (strcmp(chosen, "ends") == 0) ends();
  if (strcmp(chosen, "breaks") == 0) breaks();
  if (strcmp(chosen, "killed") == 0) is_killed();
  return 0;
}
