/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that is mapped, unmapped, forbidden and truncated while registers of sampled code point into it. */
#include "soak.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_AREAS 4
#define MEMORY_BYTES ((size_t)128 << 10)

uint64_t soak_flips;
static uint8_t *volatile memory_areas[MEMORY_AREAS];

/* Records that look like frames, each leading on within the area. */
static void memory_fill(uint8_t *area) {
  uint64_t *words = (uint64_t *)(void *)area;
  for (size_t i = 0; i + 1 < MEMORY_BYTES / 8; i += 64) {
    words[i] = (uint64_t)(uintptr_t)(area + (i + 64) * 8 % MEMORY_BYTES);
    words[i + 1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
  }
}

static bool memory_flip(uint8_t *area, int file, unsigned *seed) {
  int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  switch (soak_random(seed, 3)) {
  case 0: /* the place stays reserved: nobody else's memory is replaced by the next flip */
    if (mmap(area, MEMORY_BYTES, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return false;
    break;
  case 1:
    if (mprotect(area + MEMORY_BYTES / 2, MEMORY_BYTES / 2, PROT_NONE) != 0) return false;
    break;
  default: /* a load behind a file's end is SIGBUS */
    if (file >= 0 && ftruncate(file, (off_t)(MEMORY_BYTES / 4)) != 0) return false;
  }
  if (file >= 0 && ftruncate(file, (off_t)MEMORY_BYTES) != 0) return false;
  if (mmap(area, MEMORY_BYTES, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED) return false;
  memory_fill(area);
  return true;
}

void soak_run_flips(soak_worker *worker) {
  int number = worker->number;
  int file = number % 2 ? memfd_create("soak", MFD_CLOEXEC) : -1;
  uint8_t *area = mmap(NULL, MEMORY_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED || (number % 2 && file < 0)) {
    soak_fail("no memory to flip");
    return;
  }
  memory_areas[number] = area;
  while (!soak_resting) {
    if (!memory_flip(area, file, &worker->seed)) soak_fail("a flip failed");
    soak_count(&soak_flips, 1);
    soak_beat(worker);
    if (soak_random(&worker->seed, 4) == 0) soak_sleep(0.0005);
  }
  /* The address stays in memory_areas: nothing is there now, which is as good. */
  munmap(area, MEMORY_BYTES);
  if (file >= 0) close(file);
}

uint64_t soak_somewhere(unsigned *seed) {
  uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  uint64_t words = 8u * (uint64_t)soak_random(seed, 1 << 14);
  switch (soak_random(seed, 7)) {
  case 0:
    return (uint64_t)rand_r(seed) << 33 ^ (uint64_t)rand_r(seed) << 3 ^ soak_random(seed, 16);
  case 1:
    return here + words; /* this stack, and what is above it */
  case 2:
    return (here & ~(uint64_t)7) - words;
  case 3:
    return (uint64_t)(uintptr_t)&soak_somewhere + words; /* code */
  case 4:
    return soak_wild_place(seed);
  default:
    return (uint64_t)(uintptr_t)memory_areas[soak_random(seed, MEMORY_AREAS)] + words % MEMORY_BYTES;
  }
}
