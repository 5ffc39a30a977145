/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* No clock at all: the program's allocations make the samples (allocator/heap.h). */
#include "allocator/heap.h"
#include "allocator/live.h"
#include "base/atomics.h"
#include "control/tick/clock.h"

static uint64_t clock_heap_sessions; /* that have been, in this process and its parents */

static int clock_heap_probe(int32_t signal) {
  (void)signal;
  return 0;
}

static int clock_heap_join(onstack_slot *slot) {
  if (onstack_heap_is_on()) return ONSTACK_E_SESSIONS;
  /* Several sessions may share one profile: numbers of objects come once in a process. */
  slot->object_base = ++clock_heap_sessions << 40;
  return onstack_live_make(slot->objects);
}

static int clock_heap_start(onstack_slot *slot, int listed) {
  (void)listed;
  onstack_heap_switch_on(slot, (uint32_t)slot->periods[ONSTACK_KIND_ALLOCATION]);
  return 0;
}

static void clock_heap_leave(onstack_slot *slot) {
  if (slot->object_base != 0) onstack_heap_switch_off();
}

static bool clock_heap_read(uint32_t tid, uint64_t *ns) {
  (void)tid;
  *ns = 0;
  return false;
}

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_heap = {
    .name = "heap",
    .number = ONSTACK_CLOCK_HEAP,
    .kind = ONSTACK_KIND_ALLOCATION,
    .silent = true,
    .probe = clock_heap_probe,
    .scan_age = onstack_clock_scan_all,
    .join = clock_heap_join,
    .start = clock_heap_start,
    .leave = clock_heap_leave,
    .read = clock_heap_read,
    .drop = onstack_live_drop,
    .after_fork = onstack_heap_switch_off,
};
