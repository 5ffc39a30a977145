/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* No clock at all: the program's allocations make the samples (sampler/source/heap.h). */
#include "sampler/source/heap.h"
#include "sampler/source/live.h"
#include "platform/atomics.h"
#include "platform/clock_ns.h"
#include "platform/exceptions.h"
#include "platform/sys.h"
#include "sampler/source/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#define CLOCK_HEAP_INTERVAL (512u << 10)
#define CLOCK_HEAP_OBJECTS 16384u
#define CLOCK_HEAP_OBJECTS_MAX (1u << 20)

static uint64_t clock_heap_sessions; /* that have been, in this process and its parents */
/* Whose blocks are in the table, until its sink has heard of them all: longer than it samples. Under the control lock. */
static const onstack_slot *clock_heap_owner;
static uint64_t clock_heap_told; /* ends that its sink has had; the owner's consumer alone */

static int clock_heap_accept(const onstack_options *options, onstack_settings *settings, const char **fault) {
  *fault = "frequency: the heap clock has none, leave it out";
  if (options->frequency != 0) return ONSTACK_E_OPTIONS;
  *fault = "heap_objects: give 1,048,576 at most";
  if (options->heap_objects > CLOCK_HEAP_OBJECTS_MAX) return ONSTACK_E_OPTIONS;
  *fault = NULL;
  settings->period = options->heap_interval ? options->heap_interval : CLOCK_HEAP_INTERVAL;
  settings->period_ns = settings->period; /* nothing ticks by it */
  settings->weight_max = 1;
  settings->heap_objects = options->heap_objects ? options->heap_objects : CLOCK_HEAP_OBJECTS;
  return 0;
}

/* Each sample is made with every signal blocked. */
static int clock_heap_probe(int32_t signal) {
  const onstack_kernel_sigset none = 0;
  (void)signal;
  return onstack_sys_sigprocmask(SIG_BLOCK, &none, NULL) == 0 ? 0 : ONSTACK_E_CLOCK;
}

static int clock_heap_join(onstack_slot *slot, const onstack_settings *settings) {
  if (clock_heap_owner) return ONSTACK_E_SESSIONS;
  const int result = onstack_live_make(settings->heap_objects);
  if (result < 0) return result;
  clock_heap_owner = slot;
  /* Several sessions may share one profile: numbers of objects come once in a process. The consumer looks at this already. */
  clock_heap_told = 0;
  onstack_publish(&slot->object_base, ++clock_heap_sessions << 40);
  return 0;
}

static int clock_heap_start(onstack_slot *slot, int listed) {
  (void)listed;
  onstack_heap_switch_on(slot, (uint32_t)slot->periods[ONSTACK_KIND_ALLOCATION]);
  return 0;
}

static void clock_heap_leave(onstack_slot *slot) {
  if (onstack_load_relaxed(&slot->object_base) != 0) onstack_heap_switch_off();
}

static void clock_heap_drop(onstack_slot *slot) {
  if (slot != clock_heap_owner) return;
  onstack_live_drop();
  clock_heap_owner = NULL;
}

static void clock_heap_after_fork(void) {
  onstack_heap_switch_off();
  clock_heap_owner = NULL;
}

static bool clock_heap_read(uint32_t tid, uint64_t *ns) {
  (void)tid;
  *ns = 0;
  return false;
}

static int clock_heap_tell(const onstack_slot *slot, uint32_t place, onstack_sink sink, void *data) {
  ONSTACK_STOP_EXCEPTIONS;
  static const uint64_t no_frames[1];
  const onstack_live_note *note = &onstack_live.notes[place];
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_ALLOCATION,
                                 .time_ns = onstack_monotonic_ns(),
                                 .value = note->bytes,
                                 .period = slot->periods[ONSTACK_KIND_ALLOCATION],
                                 .unit = ONSTACK_UNIT_BYTES,
                                 .weight = note->objects,
                                 .tid = note->tid,
                                 .thread_name = "",
                                 .frames = no_frames,
                                 .flags = ONSTACK_SAMPLE_FREED,
                                 .object = onstack_load_relaxed(&slot->object_base) + note->position + 1};
  return sink(data, &sample);
}

/* Of all that was freed and whose allocation the sink has had. */
static bool clock_heap_deliver_ends(onstack_slot *slot, onstack_sink sink, void *data, uint64_t *refused) {
  if (onstack_observe(&slot->object_base) == 0) return true; /* it has not joined: the table may be another session's */
  const uint32_t generation = onstack_load_relaxed(&slot->generation);
  const uint64_t freed = onstack_load_relaxed(&onstack_live.freed);
  const uint64_t delivered = onstack_load_relaxed(&slot->ring.head);
  if (freed == clock_heap_told) return true;
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  for (uint32_t place = 0; (place = onstack_live_next_freed(place, delivered)) != ONSTACK_LIVE_NONE; place++) {
    const int result = sink ? clock_heap_tell(slot, place, sink, data) : 0;
    if (onstack_load_relaxed(&slot->generation) != generation) return false;
    if (result != 0) onstack_add_relaxed(refused, (uint64_t)1);
    onstack_live_release(place);
    clock_heap_told++;
  }
  onstack_store_relaxed(&slot->sink_tid, 0);
  return true;
}

static void clock_heap_fill(const onstack_slot *slot, onstack_stats *stats) {
  (void)slot;
  stats->heap_untracked = onstack_load_relaxed(&onstack_live.untracked);
  stats->heap_reused = onstack_load_relaxed(&onstack_live.reused);
  stats->heap_in_use = onstack_live_bytes();
}

static int clock_heap_text(const onstack_stats *stats, char *out, size_t capacity) {
  return snprintf(out, capacity, "onstack.heap interval=%" PRIu64 " untracked=%" PRIu64 " reused=%" PRIu64 "\n",
                  stats->heap_interval, stats->heap_untracked, stats->heap_reused);
}

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_heap = {
    .name = "heap",
    .number = ONSTACK_CLOCK_HEAP,
    .kind = ONSTACK_KIND_ALLOCATION,
    .silent = true,
    .accept = clock_heap_accept,
    .probe = clock_heap_probe,
    .scan_age = onstack_clock_scan_all,
    .join = clock_heap_join,
    .start = clock_heap_start,
    .leave = clock_heap_leave,
    .read = clock_heap_read,
    .deliver_ends = clock_heap_deliver_ends,
    .fill = clock_heap_fill,
    .text = clock_heap_text,
    .drop = clock_heap_drop,
    .after_fork = clock_heap_after_fork,
};
