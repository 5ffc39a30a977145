/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/own_memory.h"

#include "platform/atomics.h"

#include <sys/mman.h>
#include <unistd.h>

#define OWN_RANGES 32u            /* rings, thread records and the live table; later ones are not counted */
#define OWN_AT_ONCE ((size_t)512) /* pages */

static struct {
  struct {
    char *memory;
    size_t bytes;
  } ranges[OWN_RANGES];
  uint32_t count; /* published behind a range */
  int64_t whole;
} own_memory;

void onstack_own_memory_keeps(void *memory, size_t bytes) {
  const uint32_t at = own_memory.count;
  if (at == OWN_RANGES) return;
  own_memory.ranges[at].memory = memory;
  own_memory.ranges[at].bytes = bytes;
  onstack_publish(&own_memory.count, at + 1);
}

void onstack_own_memory_changes(int64_t bytes) { onstack_add_relaxed(&own_memory.whole, bytes); }

/* mincore(2): a byte for each page of the kernel's. */
static uint64_t own_range_resident(char *memory, size_t bytes) {
#ifdef __linux__
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), at_once = OWN_AT_ONCE * page;
  unsigned char there[OWN_AT_ONCE];
  uint64_t resident = 0;
  for (size_t at = 0; at < bytes; at += at_once) {
    const size_t part = bytes - at < at_once ? bytes - at : at_once;
    const size_t pages = (part + page - 1) / page;
    if (mincore(memory + at, part, there) != 0) return resident;
    for (size_t i = 0; i < pages; i++) resident += (there[i] & 1u) * page;
  }
  return resident;
#else
  (void)memory, (void)bytes;
  return 0;
#endif
}

uint64_t onstack_own_memory_resident(void) {
  const int64_t whole = onstack_load_relaxed(&own_memory.whole);
  uint64_t resident = whole > 0 ? (uint64_t)whole : 0;
  for (uint32_t i = 0, count = onstack_observe(&own_memory.count); i < count; i++)
    resident += own_range_resident(own_memory.ranges[i].memory, own_memory.ranges[i].bytes);
  return resident;
}

ONSTACK_INTERNAL_DEFINE __thread uint32_t onstack_ours ONSTACK_OURS_MODEL;
