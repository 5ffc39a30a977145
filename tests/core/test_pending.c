/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Samples of the time before the rules are there: their stacks are kept, and walked when the rules are. */
#include "session/start.h"
#include "support.h"

TestSuite(pending, .init = t_setup);

T_BURNER(burn_deep)

static volatile int turned;

__attribute__((noinline)) static void deep(int n, double seconds) {
  volatile char room[100];
  room[n % 100] = 1;
  if (n == 0)
    burn_deep(seconds);
  else
    deep(n - 1, seconds);
  turned += room[n % 100]; /* no tail call */
}

#define DEEP 20

typedef struct seen {
  uint64_t samples, whole, cut, wrong;
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  if (!t_in_burn_deep(sample->frames[0])) return 0;
  s->samples++;
  s->whole += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count > DEEP;
  s->cut += sample->truncation == ONSTACK_TRUNCATED_PENDING;
  s->wrong += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count <= DEEP;
  return 0;
}

static void *burn_thread(void *data) {
  deep(DEEP, *(const double *)data);
  return NULL;
}

/* Without threads of ours nothing is derived before the first poll: all samples are of the time before. */
static seen sample_first(const double *in_thread, double seconds) {
  seen s = {0};
  onstack_session *session;
  onstack_options options = t_options(200, see, &s);
  options.threads = ONSTACK_OFF;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  if (in_thread) {
    pthread_t thread;
    pthread_create(&thread, NULL, burn_thread, (void *)(uintptr_t)in_thread);
    pthread_join(thread, NULL);
  } else {
    deep(DEEP, seconds);
  }
  onstack_session_poll(session, 0);
  t_finish(session);
  return s;
}

Test(pending, stacks_of_the_first_moments_are_whole) {
  const seen s = sample_first(NULL, 0.3);
  cr_assert_gt(s.samples, 10);
  cr_assert_eq(s.wrong, 0);
  cr_assert_geq(s.whole * 100, s.samples * 95, "%lu of %lu, %lu cut", (unsigned long)s.whole, (unsigned long)s.samples,
                (unsigned long)s.cut);
}

/* Its stack is unmapped, or another's, when the copy is walked. */
Test(pending, of_a_thread_that_has_ended_too) {
  const double seconds = 0.3;
  const seen s = sample_first(&seconds, 0);
  cr_assert_gt(s.samples, 10);
  cr_assert_eq(s.wrong, 0);
  cr_assert_geq(s.whole * 100, s.samples * 95, "%lu of %lu, %lu cut", (unsigned long)s.whole, (unsigned long)s.samples,
                (unsigned long)s.cut);
}

/* More than are kept: what is left over says why it is short, and nothing else suffers. */
Test(pending, what_is_not_kept_stays_cut) {
  seen s = {0};
  onstack_session *session;
  onstack_options options = t_options(1000, see, &s);
  options.threads = ONSTACK_OFF;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  deep(DEEP, 1.5); /* at 250 ticks a second, the fewest that a kernel gives */
  onstack_session_poll(session, 0);
  const seen first = s;
  deep(DEEP, 0.2);
  onstack_session_poll(session, 0);
  t_finish(session);
  cr_assert_eq(s.wrong, 0);
  cr_assert_geq(first.whole, 100, "%lu of %lu", (unsigned long)first.whole, (unsigned long)first.samples);
  cr_assert_gt(first.cut, 0);
  cr_assert_eq(first.whole + first.cut, first.samples);
  cr_assert_eq(s.cut, first.cut, "later ones are whole");
}
