/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/pace.h"

#include "platform/atomics.h"
#include "platform/clock_ns.h"
#include "sampler/signal/own_threads.h"
#include "sampler/session/slot.h"

#include <time.h>

#define PACE_IDLE_NS 50000000u  /* once the process sleeps; then twice as long each time, */
#define PACE_REST_NS 250000000u /* up to here */
#define PACE_LONGEST_NS 500000000u
#define PACE_WORKS_NS 500000u /* of CPU time since the last round, without that of our own threads */
#define PACE_CLOCK_SHARE 64u  /* of a processor, that goes into the process's CPU time: it is a sum over threads */

/* After so many uneventful rounds a pause is twice as long, up to as many periods: what another owner's handler may take from
   each thread before it is noticed. */
#define PACE_UNEVENTFUL 16u
#define PACE_STEADY_NS 40000000u
#define PACE_STEADY_PERIODS 4u

/* How long a process that sleeps is left alone: ticks of CPU time come only once it works, and the first one wakes the drain
   thread (record_handler.c). What it costs: a handler that was displaced meanwhile is noticed that much later. */
static uint64_t pace_rest(onstack_pace *pace, bool rests) {
  const uint64_t longer = pace->rest_ns * 2 < PACE_REST_NS ? pace->rest_ns * 2 : PACE_REST_NS;
  pace->rest_ns = longer == 0 || !rests ? PACE_IDLE_NS : longer;
  return pace->rest_ns;
}

void onstack_pace_hurry(onstack_pace *pace) { pace->uneventful = 0; }

static void pace_count(onstack_pace *pace, const onstack_pace_signs *signs) {
  const bool same = signs->steady && signs->threads == pace->threads && signs->map == pace->map;
  pace->uneventful = !same ? 0 : pace->uneventful + (pace->uneventful < 2 * PACE_UNEVENTFUL);
  pace->threads = signs->threads;
  pace->map = signs->map;
}

static uint64_t pace_work(onstack_pace *pace, const onstack_pace_signs *signs) {
  const uint64_t periods = signs->period_ns * PACE_STEADY_PERIODS;
  const uint64_t most = periods < PACE_STEADY_NS ? periods : PACE_STEADY_NS;
  const uint64_t pause = (uint64_t)ONSTACK_PACE_BUSY_NS << (pace->uneventful / PACE_UNEVENTFUL);
  pace->rest_ns = PACE_IDLE_NS;
  return pause < most ? pause : most > ONSTACK_PACE_BUSY_NS ? most : ONSTACK_PACE_BUSY_NS;
}

uint64_t onstack_pace_next(onstack_pace *pace, const onstack_pace_signs *signs, bool *busy) {
  const uint64_t now = onstack_monotonic_ns();
  *busy = true;
  /* A round that a request brought early saw too little time to tell. */
  if (now - pace->checked_ns < ONSTACK_PACE_BUSY_NS) return ONSTACK_PACE_BUSY_NS;
  pace_count(pace, signs);
  const uint64_t own = onstack_load_relaxed(&onstack_own_cpu_ns), before = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t cpu = onstack_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
  const uint64_t least = (onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) * PACE_CLOCK_SHARE;
  *busy = (int64_t)(cpu - pace->process_cpu_ns) > (int64_t)PACE_WORKS_NS;
  pace->process_cpu_ns = cpu;
  pace->checked_ns = now;
  const uint64_t pause = *busy ? pace_work(pace, signs) : pace_rest(pace, signs->rests);
  return least < pause ? pause : least < PACE_LONGEST_NS ? least : PACE_LONGEST_NS;
}

uint32_t onstack_pace_kind(const onstack_pace *pace, uint64_t pause_ns) {
  /* A long pause of a process that works is one that its many threads ask for: its samples do not end it. */
  if (pause_ns > PACE_IDLE_NS && pace->rest_ns > PACE_IDLE_NS) return ONSTACK_PAUSE_REST;
  return pause_ns > ONSTACK_PACE_BUSY_NS ? ONSTACK_PAUSE_LONG : ONSTACK_PAUSE_SHORT;
}
