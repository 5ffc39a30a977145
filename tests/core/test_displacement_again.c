/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Owners that were there before the session and leave during it, and come back: who was below them has the signal again,
 * and is there after the last stop.
 */
#include "support.h"

TestSuite(displacement_again, .init = t_setup);

static volatile int first_calls, second_calls, third_calls;
static void first(int signal) { first_calls += signal == SIGPROF; }
static void second(int signal) { second_calls += signal == SIGPROF; }
static void third(int signal) { third_calls += signal == SIGPROF; }

static struct sigaction install(void (*handler)(int)) {
  struct sigaction mine = {.sa_handler = handler, .sa_flags = SA_RESTART}, found;
  cr_assert_eq(sigaction(SIGPROF, &mine, &found), 0);
  return found;
}

static void put_back(const struct sigaction *found) { cr_assert_eq(sigaction(SIGPROF, found, NULL), 0); }

/* Until the session has looked: its own handler is on top again. */
static void wait_for_the_look(void (*not_any_more)(int)) {
  for (int i = 0; i < 500; i++) {
    t_burn(0.002);
    struct onstack_kernel_sigaction now = t_action(SIGPROF);
    if (now.handler != (uint64_t)(uintptr_t)not_any_more) break;
    cr_assert_lt(i, 499, "the session never looked");
  }
  t_burn(0.1);
}

static void goes_to(volatile int *calls, const char *when) {
  int all = first_calls + second_calls + third_calls, its = *calls;
  raise(SIGPROF);
  cr_assert_eq(*calls, its + 1, "%s: its owner has it %d times", when, *calls - its);
  cr_assert_eq(first_calls + second_calls + third_calls, all + 1, "%s: another owner has it as well", when);
}

static void comes_and_goes(void (*owner)(int), volatile int *calls) {
  struct sigaction found = install(owner);
  wait_for_the_look(owner);
  goes_to(calls, "while it is there");
  put_back(&found);
  t_burn(0.1);
  goes_to(&first_calls, "after it has left");
}

/* `second` is there first, leaves blindly, and then `owner` comes and goes twice. */
static void leaves_blindly_then(void (*owner)(int), volatile int *calls) {
  install(first);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  struct sigaction found = install(second);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(0.05);
  goes_to(&second_calls, "at the start");
  put_back(&found);
  wait_for_the_look(first);
  goes_to(&first_calls, "after a blind leave");
  for (int i = 0; i < 2; i++) comes_and_goes(owner, calls);
  t_finish(session);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after), "the first owner's action is not back");
}

Test(displacement_again, the_same_owner_twice_more) { leaves_blindly_then(second, &second_calls); }
Test(displacement_again, another_owner_twice) { leaves_blindly_then(third, &third_calls); }

/* Two owners above a running session leave in the reverse order. */
Test(displacement_again, two_above_leave_one_by_one) {
  install(first);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  struct sigaction below_second = install(second);
  wait_for_the_look(second);
  struct sigaction below_third = install(third);
  wait_for_the_look(third);
  goes_to(&third_calls, "both are there");
  put_back(&below_third);
  t_burn(0.1);
  goes_to(&second_calls, "the newest has left");
  put_back(&below_second);
  t_burn(0.1);
  goes_to(&first_calls, "both have left");
  t_finish(session);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after), "the first owner's action is not back");
}
