/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory at rest, round after round. What is kept for ever has its size after a few rounds, holes in the heap go up and
 * down by a few hundred KiB, so: the middle of the early rounds is compared with that of the late ones. Over two hours
 * (50,000 sessions and more) a leak of 110 bytes a session is seen; a run of ten minutes sees larger ones only, a shorter
 * one what TREND_KEPT says.
 */
#include "soak.h"

#include <stdlib.h>

#define TREND_ROUNDS 65536
#define TREND_WARM 2
#define TREND_AT_LEAST 18 /* of the others */
#define TREND_HOLES ((uint64_t)2 << 20)
#define TREND_SESSION 64               /* bytes: chance, as far as it grows with the time */
#define TREND_KEPT ((uint64_t)8 << 20) /* of one round above the second: what is seen in the shortest run too */

typedef struct trend_round {
  uint64_t bytes, sessions;
} trend_round;
static trend_round trend_rounds[TREND_ROUNDS];
static size_t trend_count;

static int trend_compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t trend_middle(size_t from, size_t count) {
  static uint64_t sorted[TREND_ROUNDS];
  for (size_t i = 0; i < count; i++) sorted[i] = trend_rounds[from + i].bytes;
  qsort(sorted, count, sizeof(*sorted), trend_compare);
  return sorted[count / 2];
}

void soak_trend_add(uint64_t bytes, uint64_t sessions) {
  if (trend_count < TREND_ROUNDS) trend_rounds[trend_count++] = (trend_round){bytes, sessions};
  uint64_t second = trend_rounds[trend_count > 1].bytes;
  if (bytes > second + TREND_KEPT)
    soak_fail("memory grows: %lu KiB after the second round, %lu now", (unsigned long)(second >> 10),
              (unsigned long)(bytes >> 10));
}

bool soak_trend_check(soak_trend *trend) {
  size_t third = trend_count > TREND_WARM ? (trend_count - TREND_WARM) / 3 : 0;
  if (third < TREND_AT_LEAST / 3) return false;
  size_t late = trend_count - third, middle = third / 2;
  trend->early = trend_middle(TREND_WARM, third);
  trend->late = trend_middle(late, third);
  trend->sessions = trend_rounds[late + middle].sessions - trend_rounds[TREND_WARM + middle].sessions;
  if (trend->late > trend->early + TREND_HOLES + TREND_SESSION * trend->sessions)
    soak_fail("memory grows: %lu KiB in the early rounds, %lu in the late ones, %lu sessions between them",
              (unsigned long)(trend->early >> 10), (unsigned long)(trend->late >> 10), (unsigned long)trend->sessions);
  return true;
}
