/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A size that no structure can have (an uninitialised field) is refused, before anything behind the structure is read or
   written: each structure here ends where memory ends. */
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define GARBAGE 0x7FFFFFFFu

/* `bytes` of zeros, followed by memory that cannot be touched. */
static void *at_the_edge(size_t bytes) {
  char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(pages, MAP_FAILED);
  cr_assert_eq(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
  return pages + PAGE - bytes;
}

Test(sized, garbage_in_options) {
  onstack_session *session;
  onstack_options *options = at_the_edge(sizeof(*options));
  onstack_options_init(options, sizeof(*options));
  options->size = GARBAGE;
  cr_assert_eq(onstack_session_start(options, &session), ONSTACK_E_OPTIONS);
  cr_assert_null(session);
}

static onstack_walk_result walk_nothing(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                        uint32_t capacity) {
  (void)data, (void)registers, (void)ucontext, (void)frames, (void)capacity;
  return (onstack_walk_result){0, 0};
}

Test(sized, garbage_in_an_unwinder) {
  onstack_session *session;
  onstack_options options;
  onstack_unwinder *unwinder = at_the_edge(sizeof(*unwinder));
  unwinder->size = GARBAGE;
  unwinder->name = "garbage";
  unwinder->walk = walk_nothing;
  onstack_options_init(&options, sizeof(options));
  options.custom_unwinder = unwinder;
  cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  cr_assert_null(session);
}

/* A program's structures end where those of 0.1 ended, and so may its memory. */
Test(sized, structures_of_the_first_version_are_not_read_behind_their_end) {
  onstack_session *session;
  onstack_options *options = at_the_edge(64);
  onstack_unwinder *unwinder = at_the_edge(40);
  cr_assert_eq(onstack_options_init(options, 64), 0);
  unwinder->size = 40;
  unwinder->name = "first";
  unwinder->walk = walk_nothing;
  options->custom_unwinder = unwinder;
  cr_assert_eq(onstack_session_start(options, &session), 0);
  onstack_session_free(session);
}

Test(sized, a_sample_of_the_first_version) {
  const uint64_t frames[1] = {0x1000};
  onstack_profile *profile;
  uint64_t samples;
  onstack_sample *sample = at_the_edge(88);
  sample->size = 88;
  sample->kind = ONSTACK_KIND_CPU;
  sample->unit = ONSTACK_UNIT_NANOSECONDS;
  sample->weight = 1;
  sample->frames = frames;
  sample->frame_count = 1;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  cr_assert_eq(onstack_profile_sink(profile, sample), 0);
  sample->size = 87;
  cr_assert_eq(onstack_profile_sink(profile, sample), ONSTACK_E_OPTIONS);
  sample->size = GARBAGE;
  cr_assert_eq(onstack_profile_sink(profile, sample), ONSTACK_E_OPTIONS);
  onstack_profile_totals(profile, ONSTACK_KIND_CPU, &samples, NULL, NULL);
  cr_assert_eq(samples, 1);
  onstack_profile_free(profile);
}

Test(sized, garbage_in_statistics) {
  onstack_session *session;
  onstack_stats *stats = at_the_edge(sizeof(*stats));
  cr_assert_eq(onstack_session_start(NULL, &session), 0);
  stats->size = GARBAGE;
  cr_assert_eq(onstack_session_stats(session, stats), ONSTACK_E_OPTIONS);
  cr_assert_eq(stats->size, GARBAGE);
  stats->size = sizeof(*stats);
  cr_assert_eq(onstack_session_stats(session, stats), 0);
  onstack_session_free(session);
}

Test(sized, garbage_in_profile_options) {
  onstack_profile *profile;
  onstack_profile_options *options = at_the_edge(sizeof(*options));
  options->size = GARBAGE;
  cr_assert_eq(onstack_profile_new(options, &profile), ONSTACK_E_OPTIONS);
}
