/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

kept_sample *kept;
size_t kept_count;
uint64_t kept_weight, kept_period_ns;
static int check_failures;

bool check(bool good, const char *name, const char *why, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(text, sizeof(text), why, arguments);
  va_end(arguments);
  printf("%s %s/%s: %s\n", good ? "ok" : "not ok", VARIANT, name, text);
  fflush(stdout);
  check_failures += !good;
  return good;
}

void skip(const char *name, const char *why) {
  printf("skip %s/%s: %s\n", VARIANT, name, why);
  fflush(stdout);
}

int check_status(void) { return check_failures != 0; }

bool is_emulated(void) { return getenv("ONSTACK_TEST_EMULATED"); }

int keep(void *unused, const onstack_sample *sample) {
  (void)unused;
  kept_weight += sample->weight;
  kept_period_ns = sample->period;
  if (kept_count == KEPT_SAMPLES) return 0;
  kept_sample *to = &kept[kept_count++];
  *to = (kept_sample){
      .tid = sample->tid, .weight = sample->weight, .truncation = sample->truncation, .frame_count = sample->frame_count};
  uint32_t count = sample->frame_count < KEPT_FRAMES ? sample->frame_count : KEPT_FRAMES;
  memcpy(to->frames, sample->frames, count * sizeof(to->frames[0]));
  return 0;
}

onstack_session *start(uint32_t frequency, const char *unwinder) {
  onstack_options options;
  onstack_session *session;
  if (!kept && !(kept = calloc(KEPT_SAMPLES, sizeof(*kept)))) exit(2);
  kept_count = 0;
  kept_weight = 0;
  onstack_options_init(&options, sizeof(options));
  options.frequency = frequency;
  options.unwinder = unwinder;
  options.max_depth = 1024;
  options.sink = keep;
  int result = onstack_session_start(&options, &session);
  if (result == 0) return session;
  check(false, "start", "%s (%d)", onstack_strerror(result), result);
  exit(1);
}

onstack_stats finish(onstack_session *session, const char *name) {
  onstack_stats stats = {.size = sizeof(stats)};
  int stopped = onstack_session_stop(session);
  onstack_session_stats(session, &stats);
  onstack_session_free(session);
  uint64_t sum = stats.recorded + stats.unattributed + stats.dropped_ring_full + stats.dropped_no_stack +
                 stats.dropped_unwinder + stats.dropped_stopping;
  if (stopped != 0 || sum != stats.ticks || kept_weight != stats.recorded)
    check(false, name, "stop %d; ticks %lu, sum of the accounting %lu, recorded %lu, delivered weight %lu", stopped,
          (unsigned long)stats.ticks, (unsigned long)sum, (unsigned long)stats.recorded, (unsigned long)kept_weight);
  return stats;
}

double thread_cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
