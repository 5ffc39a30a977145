/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two libraries that differ in nothing but the size of one frame (ROOM), behind forty functions that are alike: same
 * size, same header of .eh_frame as far as anybody looks. Built without frame pointers.
 */
/* The formatter does not come to an end with these. */
/* clang-format off */
#define TWIN_FUNCTION(n)                                                                                               \
  int twin_##n(int x);                                                                                                 \
  int twin_##n(int x) { return x * n + 7; }
#define TWIN_TEN(n)                                                                                                    \
  TWIN_FUNCTION(n##0) TWIN_FUNCTION(n##1) TWIN_FUNCTION(n##2) TWIN_FUNCTION(n##3) TWIN_FUNCTION(n##4)                   \
  TWIN_FUNCTION(n##5) TWIN_FUNCTION(n##6) TWIN_FUNCTION(n##7) TWIN_FUNCTION(n##8) TWIN_FUNCTION(n##9)
/* clang-format on */
TWIN_TEN(1)
TWIN_TEN(2)
TWIN_TEN(3)
TWIN_TEN(4)

void plugin_burn(unsigned long rounds);

/* Only a hole of the same size will do for it, so that others' mappings do not take its place meanwhile. */
char twin_size[64 << 20];

static volatile unsigned long twin_sum;

__attribute__((noinline)) static void twin_leaf(unsigned long rounds) {
  for (unsigned long i = 0; i < rounds; i++) twin_sum += i;
}

void plugin_burn(unsigned long rounds) {
  volatile char room[ROOM];
  room[0] = 0;
  twin_leaf(rounds);
  room[0]++; /* keeps the frame, and the call from becoming a jump */
}
