/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is said of statistics: the lines, and the advice to each key. */
#include "support.h"

#include "profile/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(statistics_text, .init = t_setup);

typedef struct written {
  char text[65536];
  size_t length;
  int calls, refuse_at;
} written;

static int keep(void *data, const void *bytes, size_t length) {
  written *into = data;
  if (++into->calls == into->refuse_at) return 1;
  cr_assert_lt(into->length + length, sizeof(into->text));
  memcpy(into->text + into->length, bytes, length);
  into->length += length;
  into->text[into->length] = '\0';
  return 0;
}

/* A stopped session whose stacks were all cut behind the second frame. */
static onstack_session *cut_session(void) {
  onstack_options options = t_options(1000, NULL, NULL);
  options.max_depth = 2;
  onstack_session *session = t_start(&options);
  t_burn(0.3);
  cr_assert_eq(onstack_session_stop(session), 0);
  return session;
}

static void wants_counter(const char *line, const char *key, uint64_t value) {
  char text[80];
  snprintf(text, sizeof(text), " %s=%" PRIu64 " ", key, value);
  cr_assert_not_null(strstr(line, text), "%s is not in %s", text, line);
}

Test(statistics_text, the_lines_are_the_counters_and_the_modules_that_lost) {
  onstack_session *session = cut_session();
  onstack_stats stats = t_stats(session);
  written *into = calloc(1, sizeof(*into));
  cr_assert_eq(onstack_session_stats_text(session, keep, into), 0);
  char *end = strchr(into->text, '\n');
  cr_assert_not_null(end);
  *end = '\0';
  cr_assert_eq(strncmp(into->text, "onstack.stats ", 14), 0);
  wants_counter(into->text, "ticks", stats.ticks);
  wants_counter(into->text, "recorded", stats.recorded);
  wants_counter(into->text, "samples", stats.samples);
  wants_counter(into->text, "dropped_stopping", stats.dropped_stopping);
  wants_counter(into->text, "truncated", stats.truncated);
  wants_counter(into->text, "forwarded", stats.forwarded);
  wants_counter(into->text, "period", stats.period);
  wants_counter(into->text, "running", 0);
  cr_assert_not_null(strstr(into->text, " unwinder=rules "));
  cr_assert_eq(strncmp(end + 1, "onstack.module lost=", 20), 0);
  cr_assert_not_null(strstr(end + 1, " depth="));
  cr_assert_not_null(strstr(end + 1, "/test_statistics_text\n"));
  cr_assert_eq(into->text[into->length - 1], '\n');
  free(into);
  cr_assert_eq(onstack_session_free(session), 0);
}

Test(statistics_text, a_writer_that_refuses_ends_it) {
  onstack_session *session = cut_session();
  written *into = calloc(1, sizeof(*into));
  for (int at = 1; at <= 2; at++) {
    *into = (written){.refuse_at = at};
    cr_assert_eq(onstack_session_stats_text(session, keep, into), ONSTACK_E_OUTPUT);
    cr_assert_eq(into->calls, at);
  }
  cr_assert_eq(onstack_session_stats_text(NULL, keep, into), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_session_stats_text(session, NULL, into), ONSTACK_E_OPTIONS);
  free(into);
  cr_assert_eq(onstack_session_free(session), 0);
}

/* By the key in the lines as by the reason in the stacks. */
Test(statistics_text, each_loss_that_somebody_can_repair_has_an_advice) {
  for (uint32_t reason = 0; reason < ONSTACK_TRUNCATION_COUNT; reason++) {
    const char *key = onstack_profile_truncation_key(reason), *frame = onstack_profile_truncation_frame(reason);
    cr_assert_eq(!key, reason == ONSTACK_TRUNCATED_NOT);
    cr_assert_eq(!frame, reason == ONSTACK_TRUNCATED_NOT || reason == ONSTACK_TRUNCATED_BY_DESIGN);
    const char *advice = key ? onstack_advice(key) : NULL;
    cr_assert_eq(!advice, !frame, "%s", key);
    if (!frame) continue;
    char text[100] = "";
    cr_assert_eq(sscanf(frame, "[truncated: %99[^]]]", text), 1);
    cr_assert_eq(onstack_advice(text), advice, "%s", text);
    text[strlen(text) - 1] = '\0';
    cr_assert_null(onstack_advice(text));
  }
  static const char *const counters[] = {
      "blocked", "dropped_ring_full", "dropped_no_stack", "dropped_unwinder", "dropped_sink", "threads_unarmed", "cpu_ns"};
  for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) cr_assert_not_null(onstack_advice(counters[i]));
  cr_assert_not_null(strstr(onstack_advice("depth"), "max_depth"));
  cr_assert_not_null(strstr(onstack_advice("dropped_ring_full"), "buffer_bytes"));
  cr_assert_null(onstack_advice("ticks"));
  cr_assert_null(onstack_advice(""));
  cr_assert_null(onstack_advice(NULL));
}
