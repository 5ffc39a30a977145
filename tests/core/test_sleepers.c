/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tick of a working thread and one of the process that expire together are a sleeper's EINTR: so the process's clock keeps
 * away from the thread's. How often they meet all the same depends on the machine (docs/SIGNALS.md); what is asked here is
 * where the clock goes.
 */
#include "support.h"

#include "handler/tick/process_tick.h"

TestSuite(sleepers, .init = t_setup);

#define HZ 20
#define PERIOD_NS (1000000000u / HZ)

/* What is left until the timer's next tick, which comes by the CPU time that this thread uses. */
static double left_of(int32_t timer) {
  struct onstack_kernel_itimerspec spec;
  cr_assert_eq(onstack_sys_timer_gettime(timer, &spec), 0);
  return (double)spec.value.seconds + (double)spec.value.nanoseconds * 1e-9;
}

static void set_thread(int32_t timer, uint64_t first_ns) {
  const struct onstack_kernel_itimerspec spec = {{0, PERIOD_NS}, {0, (int64_t)first_ns}};
  cr_assert_eq(onstack_sys_timer_settime(timer, 0, &spec), 0);
}

typedef struct subject {
  onstack_session *session;
  onstack_process_clock *clock;
  const onstack_timer *thread; /* this thread's timer */
} subject;

static subject begin(void) {
  onstack_options options = t_options(HZ, NULL, NULL);
  subject is = {.session = t_start(&options)};
  const onstack_thread *record = onstack_thread_find(&onstack_slots[0].threads, (uint32_t)onstack_sys_gettid());
  cr_assert_not_null(record);
  is.thread = &record->timer;
  is.clock = onstack_slots[0].process_clock;
  cr_assert_eq(onstack_timer_state_of(is.thread), ONSTACK_TIMER_ARMED);
  cr_assert_not_null(is.clock);
  return is;
}

/* What both clocks use up between two looks is little beside a quarter of a period. */
static void is_apart(const subject *is) {
  const double process = left_of(is->clock->record->timer.id), thread = left_of(is->thread->id), period = PERIOD_NS * 1e-9;
  const double between = process - thread - (double)(int)((process - thread) / period) * period;
  const double distance = between < 0 ? between + period : between;
  cr_assert(process > 0.4 * period && process < 1.6 * period, "the next process tick in %.4f", process);
  cr_assert(distance > 0.2 * period && distance < 0.8 * period, "process %.4f, thread %.4f", process, thread);
}

Test(sleepers, the_process_clock_goes_halfway_between_two_ticks_of_the_thread) {
  const subject is = begin();
  for (uint64_t eighth = 1; eighth < 8; eighth++) {
    set_thread(is.thread->id, eighth * PERIOD_NS / 8);
    /* As at its tick: the next one is a whole period away. */
    cr_assert_eq(onstack_process_set(is.clock, PERIOD_NS, PERIOD_NS), 0);
    onstack_process_keep_apart(is.clock, is.thread, false);
    is_apart(&is);
  }
  t_finish(is.session);
}

Test(sleepers, a_tick_that_went_astray_takes_another_phase) {
  const subject is = begin();
  double least = 1, most = 0;
  for (int i = 0; i < 64; i++) {
    onstack_process_keep_apart(is.clock, is.thread, true);
    const double left = left_of(is.clock->record->timer.id) / (PERIOD_NS * 1e-9);
    cr_assert(left > 0.4 && left < 1.6, "%.2f periods", left);
    if (left < least) least = left;
    if (left > most) most = left;
  }
  cr_assert(least < 0.8 && most > 1.2, "between %.2f and %.2f periods", least, most);
  t_finish(is.session);
}
