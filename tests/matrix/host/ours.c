/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "driver.h"

#include <onstack/onstack.h>

#include <stdbool.h>
#include <string.h>

#define OURS_RATE 199

static onstack_session *ours;
static bool ours_used;
static onstack_stats ours_total; /* of the last session, or summed up over a churn */
/* What reached the sink, in ticks. Drain thread only while a session runs. */
static uint64_t ours_sink_ticks, ours_total_sink_ticks;
static long ours_sessions;

static int ours_sink(void *data, const onstack_sample *sample) {
  (void)data;
  ours_sink_ticks += sample->weight;
  return sample->frame_count > 0 ? 0 : 1;
}

static onstack_stats ours_now(void) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stats(ours, &stats);
  return stats;
}

int matrix_ours_start(void) {
  onstack_options options;
  int result = onstack_options_init(&options, sizeof(options));
  if (result < 0) return result;
  options.frequency = OURS_RATE;
  options.sink = ours_sink;
  ours_sink_ticks = 0;
  result = onstack_session_start(&options, &ours);
  if (result < 0) fprintf(stderr, "start: %s (%d)\n", onstack_strerror(result), result);
  ours_used |= result == 0;
  ours_sessions = 1;
  return result;
}

int matrix_ours_stop(void) {
  int result = onstack_session_stop(ours);
  ours_total = ours_now();
  ours_total_sink_ticks = ours_sink_ticks;
  int freed = onstack_session_free(ours);
  ours = NULL;
  return result < 0 ? result : freed;
}

static void ours_add(const onstack_stats *stats) {
  onstack_stats *total = &ours_total;
  total->ticks += stats->ticks;
  total->recorded += stats->recorded;
  total->samples += stats->samples;
  total->delivered += stats->delivered;
  total->unattributed += stats->unattributed;
  total->dropped_ring_full += stats->dropped_ring_full;
  total->dropped_no_stack += stats->dropped_no_stack;
  total->dropped_unwinder += stats->dropped_unwinder;
  total->dropped_stopping += stats->dropped_stopping;
  total->dropped_sink += stats->dropped_sink;
  total->forwarded += stats->forwarded;
  total->forwarded_timer += stats->forwarded_timer;
  total->swallowed += stats->swallowed;
  total->late += stats->late;
  total->looped += stats->looped;
}

int matrix_ours_churn(long times) {
  onstack_stats sum;
  uint64_t sum_sink_ticks = 0;
  int result = 0;
  memset(&sum, 0, sizeof(sum));
  for (long i = 0; i < times && result == 0; i++) {
    result = matrix_ours_start();
    if (result == 0) result = matrix_ours_stop();
    onstack_stats last = ours_total;
    ours_total = sum;
    if (result == 0) ours_add(&last);
    ours_total.period = last.period;
    sum = ours_total;
    sum_sink_ticks += ours_total_sink_ticks;
  }
  ours_total_sink_ticks = sum_sink_ticks;
  ours_sessions = times;
  return result;
}

void matrix_ours_describe(FILE *out) {
  if (!ours_used) return;
  onstack_stats stats = ours ? ours_now() : ours_total;
  fprintf(out, ",\"ours\":{\"running\":%d,\"sessions\":%ld", !!ours, ours_sessions);
#define FIELD(name) fprintf(out, ",\"" #name "\":%llu", (unsigned long long)stats.name)
  FIELD(period);
  FIELD(ticks);
  FIELD(recorded);
  FIELD(samples);
  FIELD(delivered);
  FIELD(unattributed);
  FIELD(dropped_ring_full);
  FIELD(dropped_no_stack);
  FIELD(dropped_unwinder);
  FIELD(dropped_stopping);
  FIELD(dropped_sink);
  FIELD(forwarded);
  FIELD(forwarded_timer);
  FIELD(swallowed);
  FIELD(late);
  FIELD(looped);
#undef FIELD
  if (!ours) fprintf(out, ",\"sink_ticks\":%llu", (unsigned long long)ours_total_sink_ticks);
  fputc('}', out);
}
