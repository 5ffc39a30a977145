/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* C as compilers write it without frame pointers: shapes of frames and epilogues, and libc under it. */
#include "subject.h"

#include <alloca.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const bool subject_whole = false;
#ifndef SUBJECT_NAME
#define SUBJECT_NAME "plain"
#endif
const char subject_name[] = SUBJECT_NAME;

#define APART __attribute__((noinline, noclone))

static volatile int sink;

static APART int recurse(int n, int a) { return n == 0 ? a : recurse(n - 1, a + n) + (n & 1); }

static int compare_ints(const void *left, const void *right) {
  int a = *(const int *)left, b = *(const int *)right;
  return (a > b) - (a < b);
}

static APART int sort_numbers(void) {
  int numbers[50];
  for (int i = 0; i < 50; i++) numbers[i] = i * 37 % 53;
  qsort(numbers, 50, sizeof(int), compare_ints);
  for (int i = 1; i < 50; i++)
    if (numbers[i - 1] > numbers[i]) return 1;
  return 0;
}

static APART int format(char *out, size_t size, const char *pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  int length = vsnprintf(out, size, pattern, arguments);
  va_end(arguments);
  return length;
}

static APART int use_strings(void) {
  static char from[5000], to[5000];
  int sum = 0;
  for (size_t size = 0; size < sizeof(from); size = size * 3 / 2 + 1) {
    memset(from, 'x', size);
    from[size] = 0;
    memcpy(to, from, size + 1);
    memmove(to + 1, to, size / 2);
    sum += (int)strlen(to) + !!strchr(to, 'y') + strcmp(from, to) + (int)strspn(to, "x");
  }
  return sum > 0 ? 0 : 1;
}

static APART int use_heap(void) {
  void *blocks[24];
  for (int i = 0; i < 24; i++) {
    blocks[i] = malloc((size_t)16 << (i % 12));
    if (!blocks[i]) return 1;
    if (i % 5 == 0) blocks[i] = realloc(blocks[i], (size_t)100 << (i % 12));
  }
  for (int i = 0; i < 24; i++) free(blocks[i * 7 % 24]);
  void *large = calloc(1, 300000);
  free(large);
  return 0;
}

static APART int use_alloca(int n) {
  char *bytes = alloca((size_t)n);
  memset(bytes, n, (size_t)n);
  return bytes[n / 2] == (char)n ? 0 : 1;
}

static APART int large_frame(int n) {
  volatile char bytes[70000];
  bytes[n] = (char)n;
  return bytes[n] == (char)n ? recurse(3, 0) : -1;
}

/* The stack is realigned to 32 or 64 bytes: CFA through a saved register or a dereference. */
__attribute__((target("avx2"))) static APART int realigned(int n) {
  volatile float aligned[16] __attribute__((aligned(64)));
  for (int i = 0; i < 16; i++) aligned[i] = (float)(i * n);
  return use_alloca(n + 64) + ((uintptr_t)aligned % 64 != 0) + (sort_numbers() != 0);
}

/* The same with arguments on the stack: the CFA is in another register first, then behind a pointer. */
__attribute__((target("avx2"))) static APART int realigned_with_arguments(int a, int b, int c, int d, int e, int f, ...) {
  va_list arguments;
  volatile float aligned[16] __attribute__((aligned(64)));
  va_start(arguments, f);
  for (int i = 0; i < 16; i++) aligned[i] = (float)(i * a);
  int seventh = va_arg(arguments, int) + va_arg(arguments, int);
  va_end(arguments);
  return use_alloca(seventh) + ((uintptr_t)aligned % 64 != 0) + (int)aligned[b] + c + d + e + f;
}

static APART int tail_second(int a, int b) { return a * b + recurse(2, b); }
static APART int tail_first(int a, int b) { return tail_second(b + 1, a - 1); }

static APART int jump_table(int n) {
  switch (n) {
  case 0:
    return recurse(1, n);
  case 1:
    return tail_first(n, 2);
  case 2:
    return use_alloca(90);
  case 3:
    return n * 5;
  case 4:
    return recurse(4, 1) * 3;
  case 5:
    return tail_first(4, n);
  case 6:
    return sink;
  case 7:
    return recurse(2, 2) - 1;
  default:
    return -1;
  }
}

__attribute__((cold)) static APART int complain(int n) {
  char text[64];
  return format(text, sizeof(text), "%d is too many", n);
}

static APART int many_registers(int n) {
  int a = n, b = n + 1, c = n + 2, d = n + 3, e = n + 4, f = n + 5;
  for (int i = 0; i < 3; i++) {
    a += recurse(i, b);
    b ^= recurse(i, c);
    c += recurse(i, d);
    d ^= recurse(i, e);
    e += recurse(i, f);
    f ^= recurse(i, a);
    if (__builtin_expect(a == 123456, 0)) return complain(a);
  }
  return a + b + c + d + e + f;
}

static APART int use_formats(void) {
  char text[400];
  int length = format(text, sizeof(text), "%s %d %x %20.12f %e %g %p %lld", "text", -5, 255, 3.14159, 1e100, 0.1,
                      (void *)text, 1234567890123LL);
  double number = strtod("2.718281828459045e-10", NULL);
  length += snprintf(text, sizeof(text), "%.30f %Lf %a", number, (long double)number, sin(number + 1));
  return length > 20 && strtol("-12345", NULL, 10) == -12345 ? 0 : 1;
}

static APART int use_clocks(void) {
  struct timespec now;
  struct tm parts;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return 1;
  char text[64];
  return gmtime_r(&now.tv_sec, &parts) && strftime(text, sizeof(text), "%F %T", &parts) > 0 ? 0 : 1;
}

static void *thread_inner(void *argument) {
  sink += recurse(5, 1);
  pthread_exit(argument);
}

static APART int use_threads(void) {
  pthread_t thread;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  void *result = NULL;
  pthread_mutex_lock(&mutex);
  if (pthread_create(&thread, NULL, thread_inner, (void *)&sink) != 0) return 1;
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, &result);
  return result == (void *)&sink ? 0 : 1;
}

int subject_run(void) {
  int bad = sort_numbers() + use_strings() + use_heap() + use_formats() + use_clocks() + use_threads() + realigned(5);
  bad += realigned_with_arguments(1, 0, 0, 0, 0, 0, 40, 60);
  for (int i = 0; i < 8; i++) sink += jump_table(i);
  sink += recurse(60, 0) + large_frame(500) + many_registers(3) + complain(2) + use_alloca(5000) - 0;
  return bad;
}
