/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Allocations as a source of samples (ONSTACK_CLOCK_HEAP): the public calls for allocators (onstack.h), and the session's side.
 * One session at a time.
 */
#include "sampler/source/live.h"
#include "platform/process.h"
#include "sampler/signal/own_threads.h"
#include "sampler/session/record.h"
#include "sampler/unwind/arch.h"
#include "platform/atomics.h"
#include "platform/calls.h"
#include "platform/sys.h"
#include "sampler/source/source.h"
#include "sampler/source/threads.h"
#include "onstack/heap.h"

#include <signal.h>
#include <sys/prctl.h>
#include <errno.h>

/* What every allocation looks at. Written by start and stop; the number publishes the rest, and a thread that reads it late may
   find the marks of before the first start. */
static const uint8_t heap_no_marks;
static onstack_heap_state heap_state = {.marks = &heap_no_marks};

static struct {
  uint64_t seed; /* the session's, never 0: a child of fork has its parent's threads' generators */
  int32_t pid;
  uint32_t interval;
  uint32_t generation; /* of the slot */
  uint32_t last;       /* the number given out last */
  onstack_slot *slot;
} heap;

/*
 * A thread's own. Initial-exec: no call of the loader, which may allocate, on the way of an allocation. A signal handler
 * that allocates may interrupt any line: then one distance is drawn too many, which changes no chance.
 */
typedef struct heap_thread {
  uint64_t left;          /* bytes before the one that is sampled next */
  uint64_t random, seed;  /* the generator, and from what session's seed it began */
  uint32_t number;        /* of the session that `left` belongs to */
  uint32_t drawn;         /* of the session of the last distance */
  uint32_t known;         /* of the session that `record` and `tid` belong to */
  uint32_t tid;           /* a child of fork has another; it has another session, too */
  onstack_thread *record; /* its stacks' bounds; NULL: none could be had */
} heap_thread;

static __thread __attribute__((tls_model("initial-exec"))) heap_thread heap_own;

/* From here on allocations are sampled into the running slot. Start only. */
static void heap_switch_on(onstack_slot *slot, uint32_t interval) {
  onstack_store_relaxed(&heap.slot, slot);
  onstack_store_relaxed(&heap.interval, interval);
  onstack_store_relaxed(&heap.generation, slot->generation);
  const int32_t pid = onstack_sys_getpid();
  onstack_store_relaxed(&heap.pid, pid);
  onstack_store_relaxed(&heap.seed, onstack_draw_mix(onstack_monotonic_ns() ^ (uint64_t)pid << 40) | 1);
  /* A thread that is late reads the one with the other: there are never fewer marks than the mask says. */
  onstack_publish(&heap_state.marks, (const uint8_t *)onstack_live.filter);
  onstack_publish(&heap_state.mask, onstack_live_filter_mask());
  if (++heap.last == 0) heap.last = 1;
  onstack_publish(&heap_state.number, heap.last);
}

/* No new sample is begun; one that is under way is waited for by whoever waits for the slot's records. Stop only. */
static void heap_switch_off(void) { onstack_store_relaxed(&heap_state.number, 0u); }

const onstack_heap_state *onstack_heap_state_get(void) { return &heap_state; }

/* The calling thread's generator; never 0, which would stay. */
static uint64_t *heap_random(void) {
  const uint64_t seed = onstack_load_relaxed(&heap.seed);
  if (heap_own.seed != seed) {
    heap_own.random = onstack_draw_mix(seed ^ (uint64_t)(uintptr_t)&heap_own ^ (uint64_t)onstack_sys_gettid() << 32) | 1;
    heap_own.seed = seed;
  }
  return &heap_own.random;
}

uint64_t onstack_heap_distance(void) {
  const uint32_t number = onstack_observe(&heap_state.number);
  if (number == 0) return 0;
  heap_own.drawn = number;
  const uint32_t interval = onstack_load_relaxed(&heap.interval);
  return interval > 1 ? onstack_draw_distance(heap_random(), interval) : 0;
}

/* The countdown of a block's bytes. */
static bool heap_is_due(uint32_t number, size_t size) {
  const size_t bytes = size > 0 ? size : 1;
  if (heap_own.number != number) {
    heap_own.left = onstack_heap_distance();
    heap_own.number = number;
  }
  const bool due = bytes > heap_own.left;
  heap_own.left = due ? onstack_heap_distance() : heap_own.left - bytes;
  return due;
}

/*
 * Into the session of that number, which cannot end meanwhile. A thread may be late: what it reads of another session, which
 * has begun since, shows by the number. A child of vfork does not enter: it has its parent's memory, and if it were killed
 * inside, the session's end would wait for it for ever.
 */
static bool heap_enter(onstack_source_visit *visit, uint32_t number) {
  onstack_slot *slot = onstack_load_relaxed(&heap.slot);
  if (onstack_sys_getpid() != onstack_load_relaxed(&heap.pid)) return false;
  if (!onstack_source_enter(visit, slot, onstack_load_relaxed(&heap.generation))) return false;
  if (onstack_observe(&heap_state.number) == number && onstack_load_relaxed(&heap.slot) == slot) return true;
  onstack_source_leave(visit);
  return false;
}

static void heap_name(uint64_t name[2]) {
  name[0] = name[1] = 0;
  onstack_sys_call2(SYS_prctl, PR_GET_NAME, (long)name);
}

/*
 * The calling thread's record in the slot, where housekeeping writes down what its stacks lie in, so that the next walk need
 * not ask the kernel for each frame. Inside a visit. One that is there already was that of a thread with this id, which has
 * ended: housekeeping corrects it within a second.
 */
static void heap_meet(onstack_slot *slot, uint32_t number) {
  uint64_t name[2];
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_thread *record = onstack_thread_find(&slot->threads, tid);
  if (!record && (record = onstack_thread_claim(&slot->threads, tid))) {
    heap_name(name);
    for (uint32_t i = 0; i < 2; i++) onstack_store_relaxed(&record->name[i], name[i]);
    onstack_timer_move(&record->timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_UNWANTED);
  }
  heap_own.record = record;
  heap_own.tid = tid;
  heap_own.known = number;
}

/* A handler may allocate on an alternate stack that holds it, and no walk. Elsewhere nobody tells where the stack ends, as for
   ticks (sampler/source/entry_handler.c). */
static bool heap_has_room(const onstack_slot *slot) {
  const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  stack_t alternate = {.ss_flags = 0};
  if (onstack_sys_call2(SYS_sigaltstack, 0, (long)&alternate) < 0 || !(alternate.ss_flags & SS_ONSTACK)) return true;
  return here - (uint64_t)(uintptr_t)alternate.ss_sp >= slot->stack_bytes;
}

/* Every signal is blocked: nobody else on this thread writes heap_own. */
static void heap_record(onstack_slot *slot, const onstack_registers *registers, uint64_t address, size_t size) {
  onstack_thread *record = heap_own.record;
  const onstack_draw_weight weight = onstack_draw_weight_of(heap_random(), size, onstack_load_relaxed(&heap.interval));
  uint64_t name[2];
  onstack_add_relaxed(&slot->counters.ticks, (uint64_t)weight.objects);
  if (!heap_has_room(slot)) {
    onstack_add_relaxed(&slot->counters.dropped_no_stack, (uint64_t)weight.objects);
    return;
  }
  if (record)
    onstack_add_relaxed(&record->timer.ticks, 1u); /* housekeeping looks at the names of those that have samples */
  else
    heap_name(name);
  const uint32_t place = onstack_live_claim(address);
  const onstack_event event = {.thread = record,
                               .tid = heap_own.tid,
                               .kind = ONSTACK_KIND_ALLOCATION,
                               .value = weight.bytes,
                               .weight = weight.objects,
                               .flags = place == ONSTACK_LIVE_NONE ? ONSTACK_SAMPLE_UNTRACKED : 0,
                               .name = name,
                               .registers = registers};
  const uint64_t recorded = onstack_record(slot, &event);
  if (place == ONSTACK_LIVE_NONE) return;
  const onstack_live_note note = {recorded - 1, weight.bytes, weight.objects, (int32_t)heap_own.tid};
  if (recorded != 0)
    onstack_live_begin(place, &note);
  else
    onstack_live_release(place);
}

/* The frame record that this function keeps leads to the caller's registers. */
__attribute__((noinline)) void onstack_heap_take(const void *address, size_t size) {
  const uint64_t *frame = __builtin_frame_address(0);
  /* A return address; inside the call, as a walk expects of a first PC. */
  const uint64_t pc = onstack_address_strip((uint64_t)(uintptr_t)__builtin_return_address(0)) - 1;
  const onstack_registers registers = {.pc = pc, .sp = (uint64_t)(uintptr_t)__builtin_dwarf_cfa(), .fp = frame[0]};
  const uint32_t number = onstack_observe(&heap_state.number);
  onstack_source_visit visit;
  if (!address || number == 0 || onstack_ours > 0) return;
  if (heap_own.drawn != number) return; /* it was due in a session that is over */
  const bool met = heap_own.known == number;
  /* What our own threads allocate is no business of the host's. */
  if (!met && !onstack_load_relaxed(&heap.slot)->own_threads && onstack_own_is(onstack_sys_gettid())) return;
  if (!heap_enter(&visit, number)) return;
  if (!met) heap_meet(visit.slot, number);
  heap_record(visit.slot, &registers, (uint64_t)(uintptr_t)address, size);
  onstack_source_leave(&visit);
}

void onstack_heap_allocated(const void *address, size_t size) {
  const uint32_t number = onstack_observe(&heap_state.number); /* pairs with the publish of a start */
  if (__builtin_expect(number != 0, 0) && heap_is_due(number, size)) onstack_heap_take(address, size);
}

/* With some thousand live samples the filter is wrong once in ten times: a visit, which costs two system calls, is for blocks
   that are there. */
static __attribute__((noinline)) void heap_end(uint32_t number, uint64_t address) {
  onstack_source_visit visit;
  if (!onstack_live_has(address) || !heap_enter(&visit, number)) return;
  onstack_live_end(address);
  onstack_source_leave(&visit);
}

void onstack_heap_freed(const void *address) {
  const uint32_t number = onstack_observe(&heap_state.number);
  if (__builtin_expect(number == 0, 1) || !address) return;
  if (__builtin_expect(onstack_live_may_have((uint64_t)(uintptr_t)address), 0))
    heap_end(number, (uint64_t)(uintptr_t)address);
}

void onstack_heap_moved(const void *from, const void *to, size_t size) {
  onstack_heap_freed(from);
  onstack_heap_allocated(to, size);
}

/* ---- the source ---- */

#define HEAP_INTERVAL (512u << 10)
#define HEAP_OBJECTS 16384u
#define HEAP_OBJECTS_MAX (1u << 20)

static uint64_t heap_source_sessions; /* that have been, in this process and its parents */
/* Whose blocks are in the table, until its sink has heard of them all: longer than it samples. Under the control lock. */
static const onstack_slot *heap_source_owner;
static uint64_t heap_source_told; /* ends that its sink has had; the owner's consumer alone */

static int heap_source_check(const onstack_options *options, onstack_settings *settings, const char **fault) {
  *fault = "thread_filter: needs a clock of real time";
  if (options->thread_filter) return ONSTACK_E_OPTIONS;
  *fault = "frequency: the heap clock has none, leave it out";
  if (options->frequency != 0) return ONSTACK_E_OPTIONS;
  *fault = "heap_objects: give 1,048,576 at most";
  if (options->heap_objects > HEAP_OBJECTS_MAX) return ONSTACK_E_OPTIONS;
  *fault = NULL;
  settings->period = options->heap_interval ? options->heap_interval : HEAP_INTERVAL;
  settings->weight_max = 1;
  settings->heap_objects = options->heap_objects ? options->heap_objects : HEAP_OBJECTS;
  settings->signal = 0;
  return 0;
}

static int heap_source_start(onstack_slot *slot, const onstack_settings *settings) {
  const onstack_kernel_sigset none = 0;
  /* Each sample is made with every signal blocked. */
  if (onstack_sys_sigprocmask(SIG_BLOCK, &none, NULL) != 0) return ONSTACK_E_CLOCK;
  if (heap_source_owner) return ONSTACK_E_SESSIONS;
  if (onstack_live_make(settings->heap_objects) < 0) return -ENOMEM;
  heap_source_owner = slot;
  /* Several sessions may share one profile: numbers of objects come once in a process. The consumer looks at this already. */
  heap_source_told = 0;
  onstack_publish(&slot->object_base, ++heap_source_sessions << 40);
  onstack_dekker_store(&slot->state, ONSTACK_SLOT_RUNNING);
  heap_switch_on(slot, (uint32_t)settings->period);
  return 0;
}

static void heap_source_stop(onstack_slot *slot) {
  onstack_dekker_store(&slot->state, ONSTACK_SLOT_STOPPING);
  heap_switch_off();
  onstack_threads_wait_idle(slot);
}

static void heap_source_drop(onstack_slot *slot) {
  if (slot != heap_source_owner) return;
  heap_switch_off(); /* in the child of a fork it is on */
  onstack_live_drop();
  heap_source_owner = NULL;
}

static int heap_source_tell(const onstack_slot *slot, uint32_t place, onstack_sink sink, void *data) {
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

/* Tells the sink of all that was freed and whose allocation it has had. False: it forked, and this is the child. */
static bool heap_source_tell_ends(onstack_slot *slot, const onstack_source_round *round) {
  if (onstack_observe(&slot->object_base) == 0) return true; /* it has not begun: the table may be another session's */
  const uint32_t generation = onstack_load_relaxed(&slot->generation);
  const uint64_t freed = onstack_load_relaxed(&onstack_live.freed);
  const uint64_t delivered = onstack_load_relaxed(&slot->ring.head);
  if (freed == heap_source_told) return true;
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  for (uint32_t place = 0; (place = onstack_live_next_freed(place, delivered)) != ONSTACK_LIVE_NONE; place++) {
    const int result = round->sink ? heap_source_tell(slot, place, round->sink, round->data) : 0;
    if (onstack_load_relaxed(&slot->generation) != generation) return false;
    if (result != 0) onstack_add_relaxed(round->refused, (uint64_t)1);
    onstack_live_release(place);
    heap_source_told++;
  }
  onstack_store_relaxed(&slot->sink_tid, 0);
  return true;
}

static bool heap_source_tend(onstack_slot *slot, const onstack_source_round *round) {
  if (heap_source_tell_ends(slot, round) && round->due) onstack_threads_tend(slot);
  return false;
}

static void heap_source_fill(const onstack_slot *slot, onstack_stats *stats) {
  (void)slot;
  stats->heap_untracked = onstack_load_relaxed(&onstack_live.untracked);
  stats->heap_reused = onstack_load_relaxed(&onstack_live.reused);
  stats->heap_in_use = onstack_live_bytes();
}

ONSTACK_INTERNAL_DEFINE const onstack_source onstack_source_heap = {
    .name = "heap",
    .number = ONSTACK_CLOCK_HEAP,
    .kind = ONSTACK_KIND_ALLOCATION,
    .unit = ONSTACK_UNIT_BYTES,
    .counters = {{"untracked", offsetof(onstack_stats, heap_untracked)}, {"reused", offsetof(onstack_stats, heap_reused)}},
    .check = heap_source_check,
    .start = heap_source_start,
    .tend = heap_source_tend,
    .stop = heap_source_stop,
    .drop = heap_source_drop,
    .fill = heap_source_fill,
};
