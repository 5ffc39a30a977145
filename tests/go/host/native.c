/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void goGrow(int depth);
extern void goNest(int level);
extern int goTiny(int x);

#define KEEP __attribute__((noinline, noclone))

static volatile uint64_t native_result;

static KEEP uint64_t native_mix(uint64_t x, int rounds) {
  for (int i = 0; i < rounds; i++) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u + (uint64_t)i;
  return x;
}

/* Holds RBP's place for data: all callee-saved registers are in use over the calls. */
static KEEP uint64_t native_recurse(uint64_t a, uint64_t b, uint64_t c, int depth, int rounds) {
  if (depth == 0) return native_mix(a ^ b ^ c, rounds);
  uint64_t left = native_recurse(a + 1, b * 3, c ^ a, depth - 1, rounds);
  return left ^ native_mix(a + b + c + left, rounds) ^ (uint64_t)depth;
}

static int native_compare(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

void native_work(int rounds) {
  uint32_t numbers[512];
  char text[128];
  native_result += native_recurse(1, 2, 3, 12, rounds / 20);
  for (int i = 0; i < 512; i++) numbers[i] = (uint32_t)native_mix((uint64_t)i, 3);
  qsort(numbers, 512, sizeof(numbers[0]), native_compare);
  for (int i = 0; i < 40; i++) {
    char *copy = malloc(64 + (size_t)i * 64);
    if (!copy) abort();
    snprintf(text, sizeof(text), "%d %g %s", i, i / 3.0, "onstack");
    memcpy(copy, text, 64);
    native_result += (uint64_t)copy[3];
    free(copy);
  }
}

void native_call_back(int depth, int rounds) {
  for (int i = 0; i < 3; i++) {
    goGrow(depth << (2 * i));
    native_result += native_recurse((uint64_t)depth, 5, 7, 6, rounds / 7);
  }
}

void native_nest(int level, int rounds) {
  if (level > 1) goNest(level - 1);
  native_result += native_recurse((uint64_t)level, 1, 2, 4, rounds / 5);
}

int native_tiny(int x) { return x + 1; }

int native_tiny_callback(int x) { return goTiny(x) + 1; }
