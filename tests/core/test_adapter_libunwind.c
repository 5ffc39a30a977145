/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The pluggable proof: nongnu libunwind as a user's unwinder sees the same stacks as the built-in rules. */
#include <criterion/criterion.h>
#include <onstack_libunwind.h>
#include <string.h>
#include <time.h>

typedef struct module_statistics {
  uint64_t samples, in_order;
} module_statistics;

static volatile double accumulator = 1;

__attribute__((noinline)) static void burn_leaf(void) {
  struct timespec now;
  double end = 0;
  do {
    for (int i = 0; i < 100000; i++) accumulator = accumulator * 1.0000001 + 0.1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (end == 0) end = at + 0.5;
    if (at >= end) break;
  } while (1);
}

__attribute__((noinline)) static void burn_caller(void) {
  burn_leaf();
  accumulator += 1; /* keeps the call from becoming a jump */
}

static int sink(void *data, const onstack_sample *sample) {
  module_statistics *seen = data;
  seen->samples++;
  /* The caller's return address lies inside burn_caller, which is a few dozen bytes long. */
  for (uint32_t i = 1; i < sample->frame_count; i++)
    if (sample->frames[i] - (uint64_t)(uintptr_t)burn_caller < 64) {
      seen->in_order++;
      break;
    }
  return 0;
}

static module_statistics profile_with(const onstack_unwinder *custom, const char *name) {
  module_statistics seen = {0, 0};
  onstack_session *session;
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  options.custom_unwinder = custom;
  options.unwinder = name;
  options.sink = sink;
  options.sink_data = &seen;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  burn_caller();
  cr_assert_eq(onstack_session_stop(session), 0);
  onstack_stats stats = {.size = sizeof(stats)};
  cr_assert_eq(onstack_session_stats(session, &stats), 0);
  cr_assert_eq(stats.dropped_no_stack, 0);
  cr_assert_str_eq(stats.unwinder, custom ? custom->name : name);
  onstack_session_free(session);
  return seen;
}

Test(adapter, libunwind_sees_the_callers_that_rules_see) {
  module_statistics theirs = profile_with(onstack_libunwind(), NULL), ours = profile_with(NULL, "rules");
  cr_assert_gt(theirs.samples, 20);
  cr_assert_gt(ours.samples, 20);
  cr_assert_geq(theirs.in_order * 100, theirs.samples * 95);
  cr_assert_geq(ours.in_order * 100, ours.samples * 95);
}
