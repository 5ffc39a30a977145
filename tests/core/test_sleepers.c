/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tick of a working thread and one of the process that expire together are a sleeper's EINTR: so the process's clock ticks
 * only for CPU time that no thread's own tick accounts for. How often they meet all the same depends on the machine
 * (docs/SIGNALS.md); what is asked here is when the clock ticks.
 */
#include "support.h"

#include "handler/tick/process_tick.h"

TestSuite(sleepers, .init = t_setup);

/* What is left until the timer's next tick, in seconds of the process's CPU time. */
static double left_of(int32_t timer) {
  struct onstack_kernel_itimerspec spec;
  cr_assert_eq(onstack_sys_timer_gettime(timer, &spec), 0);
  return (double)spec.value.seconds + (double)spec.value.nanoseconds * 1e-9;
}

Test(sleepers, the_process_is_not_asked_while_its_threads_tick) {
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(2.0);
  const onstack_stats stats = t_finish(session);
  cr_log_info("%lu process ticks, %lu ticks", stats.process_ticks, stats.ticks);
  cr_assert_geq(stats.ticks, 190u);
  cr_assert_leq(stats.process_ticks, stats.ticks / 3, "%lu process ticks, %lu ticks", stats.process_ticks, stats.ticks);
}

Test(sleepers, each_tick_of_a_thread_puts_the_process_off) {
  const double period = 0.05;
  onstack_options options = t_options(20, NULL, NULL);
  onstack_session *session = t_start(&options);
  onstack_slot *slot = &onstack_slots[0];
  const int32_t timer = slot->process_clock->record->timer.id;
  const double begin = left_of(timer);
  double left = begin;
  cr_assert(begin > 0 && begin < 2.1 * period, "%.3f", begin);
  for (uint64_t ticks = 1; ticks <= 40; ticks++) {
    const double before = left;
    onstack_add_relaxed(&slot->counters.ticks, (uint64_t)1);
    onstack_process_ticked(slot, onstack_load_relaxed(&slot->counters.ticks));
    left = left_of(timer);
    /* Seldom, for it costs system calls; and never further than the ticks account for. */
    cr_assert(left > before - 0.01 && left < begin + (double)ticks * period + 0.01, "after %lu ticks: %.3f", ticks, left);
  }
  /* Nor for long: such a burst is a thread that has had the signal blocked. */
  cr_assert(left > 7 * period && left < 9.1 * period, "%.3f", left);
  onstack_sub_relaxed(&slot->counters.ticks, (uint64_t)40);
  t_finish(session);
}
