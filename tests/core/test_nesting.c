/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The handler that is installed open for its own signal closes it by itself: for as long as it runs, and no longer. Where it
 * interrupts itself at its first instruction, two signals are of one moment, and each is told of the code below both.
 */
#include "sampler/source/look.h"
#include "platform/context.h"
#include "sampler/signal/nesting.h"
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(nesting, .init = t_setup);

static struct sigaction below;
static volatile int first_calls, blocked_below, blocked_before, blocked_after;

static bool is_blocked(void) {
  sigset_t mask;
  cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
  return sigismember(&mask, SIGPROF);
}

static void first(int signal) {
  (void)signal;
  first_calls++;
  blocked_below = is_blocked();
}

static void chains(int signal, siginfo_t *info, void *context) {
  blocked_before = is_blocked();
  below.sa_sigaction(signal, info, context);
  blocked_after = is_blocked();
}

/* Nobody looks, so an owner that comes stays on top and calls ours. */
static onstack_session *start_open_over(struct sigaction host, const onstack_unwinder *unwinder) {
  cr_assert_eq(sigaction(SIGPROF, &host, NULL), 0);
  onstack_options options = t_options(10, NULL, NULL);
  options.custom_unwinder = unwinder;
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  onstack_nesting_state.watch = onstack_nesting_state.open = 1; /* as in a program of Go */
  return session;
}

static onstack_session *start_open(void) {
  return start_open_over((struct sigaction){.sa_handler = first, .sa_flags = SA_RESTART}, NULL);
}

static void is_chained(int flags, bool open) {
  onstack_session *session = start_open();
  struct sigaction owner = {.sa_sigaction = chains, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
  cr_assert_eq(sigaction(SIGPROF, &owner, &below), 0);
  raise(SIGPROF);
  cr_assert_eq(first_calls, 1);
  cr_assert(blocked_below, "the first owner has not asked for more signals of its kind");
  cr_assert_neq(blocked_before, open);
  cr_assert_neq(blocked_after, open, "the owner's mask has been changed by the handler that it called");
  cr_assert_eq(sigaction(SIGPROF, &below, NULL), 0);
  t_finish(session);
}

Test(nesting, an_owner_that_calls_it_with_the_signal_open_has_it_open_afterwards) { is_chained(SA_NODEFER, true); }
Test(nesting, an_owner_that_calls_it_with_the_signal_blocked_has_it_blocked_afterwards) { is_chained(0, false); }

/* ---- two signals of one moment ---- */

#define ITSELF ONSTACK_SIGBIT(SIGPROF)
#define SIGNALS 4u

typedef struct told {
  int value; /* that was sent along */
  const void *info;
  uint64_t pc, sp;
  onstack_kernel_sigset mask; /* of the interrupted code */
  bool open;                  /* its own signal was, while it was handled */
} told;

static told all[SIGNALS];
static volatile uint32_t count;

static void tell(int value, const void *info, const ucontext_t *context) {
  onstack_registers registers;
  if (count == SIGNALS) return;
  onstack_registers_from(&registers, context);
  all[count] = (told){.value = value, .info = info, .pc = registers.pc, .sp = registers.sp, .open = !is_blocked()};
  all[count].mask = *(const onstack_kernel_sigset *)(const void *)&context->uc_sigmask;
  count++;
}

static void tells(int signal, siginfo_t *info, void *context) {
  (void)signal;
  tell(info->si_value.sival_int, info, context);
}

/* Called for a tick. */
static onstack_walk_result walks(void *data, const onstack_registers *registers, void *context, uint64_t *frames,
                                 uint32_t capacity) {
  (void)data;
  (void)capacity;
  tell(0, NULL, context);
  frames[0] = registers->pc;
  return (onstack_walk_result){1, 0};
}

extern const char __start_text_opens[], __stop_text_opens[];

static bool is_in_opens(uint64_t pc) {
  return pc >= (uint64_t)(uintptr_t)__start_text_opens && pc < (uint64_t)(uintptr_t)__stop_text_opens;
}

/* Signals that wait are delivered where this system call returns to: by libc's function that would be in libc. */
__attribute__((noinline, noclone, section("text_opens"))) static void opens(onstack_kernel_sigset mask) {
  onstack_sys_sigprocmask(SIG_SETMASK, &mask, NULL);
}

static onstack_kernel_sigset blocks(onstack_kernel_sigset more) {
  onstack_kernel_sigset before = 0;
  cr_assert_eq(onstack_sys_sigprocmask(SIG_BLOCK, &more, &before), 0);
  return before;
}

static void send_to_thread(int value) {
  siginfo_t info = {.si_signo = SIGPROF, .si_code = SI_QUEUE};
  info.si_value.sival_int = value;
  cr_assert_eq(onstack_sys_call4(SYS_rt_tgsigqueueinfo, getpid(), onstack_sys_gettid(), SIGPROF, (long)&info), 0);
}

/* To two queues, as the ticks of two clocks: of two in the same one the kernel would drop the second. */
static void send_both(void) {
  send_to_thread(1);
  cr_assert_eq(sigqueue(getpid(), SIGPROF, (union sigval){.sival_int = 2}), 0);
}

static volatile bool stacked;

static void stacks(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  stacked |= onstack_registers_pc(context) == (uint64_t)(uintptr_t)stacks;
}

/* An emulator delivers signals in ways of its own. */
static void need_frames_that_stack(void) {
  struct sigaction open = {.sa_sigaction = stacks, .sa_flags = SA_SIGINFO | SA_NODEFER};
  cr_assert_eq(sigaction(SIGPROF, &open, NULL), 0);
  const onstack_kernel_sigset before = blocks(ITSELF);
  send_both();
  opens(before);
  if (!stacked) cr_skip("two signals of one moment are no two frames here");
}

/* As sampler/signal/change.c installs it in a program of Go; what was there, to be put back before the end. */
static struct onstack_kernel_sigaction open_in_the_kernel(void) {
  const struct onstack_kernel_sigaction was = t_action(SIGPROF);
  struct onstack_kernel_sigaction open = was;
  open.flags |= (uint64_t)SA_NODEFER;
  open.mask &= ~ITSELF;
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &open, NULL), 0);
  return was;
}

static void was_told_the_truth(const told *one, onstack_kernel_sigset before) {
  cr_assert(is_in_opens(one->pc), "signal %d: the interrupted code is at %#lx", one->value, (unsigned long)one->pc);
  cr_assert_eq(one->mask, before, "signal %d: the mask was %#lx, not %#lx", one->value, (unsigned long)one->mask,
               (unsigned long)before);
  cr_assert_not(one->open, "signal %d: another one could have come meanwhile", one->value);
}

static void both_are_told_the_truth(void) {
  need_frames_that_stack();
  onstack_session *session =
      start_open_over((struct sigaction){.sa_sigaction = tells, .sa_flags = SA_SIGINFO | SA_RESTART}, NULL);
  const struct onstack_kernel_sigaction was = open_in_the_kernel();
  onstack_kernel_sigset after = 0;
  blocks(ONSTACK_SIGBIT(SIGUSR1)); /* so that the mask is one that nobody else has */
  const onstack_kernel_sigset before = blocks(ITSELF);
  send_both();
  errno = EXDEV;
  opens(before);
  cr_assert_eq(errno, EXDEV);
  cr_assert_eq(onstack_sys_sigprocmask(SIG_BLOCK, NULL, &after), 0);
  cr_assert_eq(after, before, "the mask is %#lx, not %#lx", (unsigned long)after, (unsigned long)before);
  cr_assert_eq(count, 2u);
  cr_assert_eq(all[0].value + all[1].value, 3, "%d and %d instead of 1 and 2", all[0].value, all[1].value);
  cr_assert_neq(all[0].info, all[1].info, "they came one after the other: nothing has been tried");
  cr_assert_eq(all[0].sp, all[1].sp, "the stack pointer was %#lx and %#lx", (unsigned long)all[0].sp,
               (unsigned long)all[1].sp);
  for (uint32_t i = 0; i < 2; i++) was_told_the_truth(&all[i], before);
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &was, NULL), 0);
  t_finish(session);
}

Test(nesting, two_signals_of_one_moment_are_told_of_the_code_below_both) { both_are_told_the_truth(); }

/* The owner has not asked for the alternate stack, and runs on the interrupted one. */
Test(nesting, two_signals_of_one_moment_on_an_alternate_stack_are_told_of_the_code_below_both) {
  stack_t stack = {.ss_size = 131072};
  stack.ss_sp = malloc(stack.ss_size);
  cr_assert_eq(sigaltstack(&stack, NULL), 0);
  both_are_told_the_truth();
  const uint64_t distance = all[0].sp - (uint64_t)(uintptr_t)stack.ss_sp;
  cr_assert_geq(distance, stack.ss_size, "the interrupted code was not on the alternate stack");
}

/* A timer's signal is not dropped where one waits already, but queued behind it: so the tick's frame is on top. */
Test(nesting, a_tick_over_a_signal_of_the_same_moment_is_a_sample_of_the_code_below_both) {
  if (!onstack_look_works()) cr_skip("no ticks that are ours, by an emulator");
  need_frames_that_stack();
  const onstack_unwinder unwinder = {.size = sizeof(unwinder), .name = "tells", .walk = walks};
  const onstack_kernel_sigset before = blocks(ITSELF);
  onstack_session *session =
      start_open_over((struct sigaction){.sa_sigaction = tells, .sa_flags = SA_SIGINFO | SA_RESTART}, &unwinder);
  const struct onstack_kernel_sigaction was = open_in_the_kernel();
  send_to_thread(1);
  t_burn(0.15); /* a period and a half */
  opens(before);
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &was, NULL), 0);
  t_finish(session);
  cr_assert(count >= 2 && all[0].value == 0 && all[count - 1].value == 1, "%u were handled, first %d, last %d", count,
            all[0].value, all[count - 1].value);
  for (uint32_t i = 0; i < count; i++) was_told_the_truth(&all[i], before);
}
