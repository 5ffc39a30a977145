/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Leaves no trace: what stop puts back, compared as the kernel has it (handler, flags, mask, restorer). */
#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(action, .init = t_setup);

static volatile int plain_calls, info_calls;
static void plain_handler(int signal) {
  (void)signal;
  plain_calls++;
}
static void info_handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
  info_calls++;
}

static void run_session(onstack_restore restore) {
  onstack_options options = t_options(1000, NULL, NULL);
  options.restore = restore;
  onstack_session *session = t_start(&options);
  struct onstack_kernel_sigaction ours = t_action(SIGPROF);
  cr_assert_neq(ours.handler, (uint64_t)(uintptr_t)SIG_DFL);
  cr_assert_neq(ours.handler, (uint64_t)(uintptr_t)SIG_IGN);
  cr_assert(ours.flags & SA_ONSTACK);
  t_burn(0.05);
  t_finish(session);
}

static void comes_back(struct sigaction *action) {
  cr_assert_eq(sigaction(SIGPROF, action, NULL), 0);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  run_session(ONSTACK_RESTORE_EXACT);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after), "handler %lx -> %lx, flags %lx -> %lx, mask %lx -> %lx", before.handler,
            after.handler, before.flags, after.flags, before.mask, after.mask);
}

Test(action, default_comes_back) { comes_back(&(struct sigaction){.sa_handler = SIG_DFL}); }
Test(action, ignore_comes_back) { comes_back(&(struct sigaction){.sa_handler = SIG_IGN}); }

Test(action, handlers_come_back_with_flags_and_mask) {
  static const int flags[] = {0, SA_NODEFER, SA_RESTART, SA_RESETHAND, SA_NODEFER | SA_RESTART | SA_ONSTACK};
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
    struct sigaction action = {.sa_handler = plain_handler, .sa_flags = flags[i]};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaddset(&action.sa_mask, SIGRTMIN + 3);
    comes_back(&action);
    struct sigaction info = {.sa_sigaction = info_handler, .sa_flags = flags[i] | SA_SIGINFO};
    sigfillset(&info.sa_mask);
    comes_back(&info);
  }
}

/* Installed past libc: no restorer of libc's, a flag that libc adds missing. */
Test(action, an_action_installed_without_libc_comes_back) {
  struct onstack_kernel_sigaction odd = {.handler = (uint64_t)(uintptr_t)SIG_IGN, .flags = SA_NODEFER};
  odd.mask = 0x8000000100000200u;
#if defined(__x86_64__)
  odd.restorer = 0x1234560;
#endif
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &odd, NULL), 0);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  run_session(ONSTACK_RESTORE_EXACT);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}

Test(action, another_signal_is_installed_and_restored_alone) {
  signal(SIGUSR2, plain_handler);
  struct onstack_kernel_sigaction before = t_action(SIGUSR2), prof = t_action(SIGPROF);
  onstack_options options = t_options(500, NULL, NULL);
  options.signal = SIGUSR2;
  onstack_session *session = t_start(&options);
  struct onstack_kernel_sigaction prof_now = t_action(SIGPROF);
  cr_assert(t_same_action(&prof, &prof_now), "SIGPROF is not ours to touch");
  t_burn(0.1);
  cr_assert_gt(t_finish(session).ticks, 10);
  struct onstack_kernel_sigaction after = t_action(SIGUSR2);
  cr_assert(t_same_action(&before, &after));
  cr_assert_eq(plain_calls, 0, "our ticks never reach the owner");
}

Test(action, restore_ignore_leaves_sig_ign) {
  signal(SIGPROF, plain_handler);
  run_session(ONSTACK_RESTORE_IGNORE);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
}

/* "only the session that installs the action has a say" */
Test(action, the_installing_session_decides_what_is_restored) {
  onstack_options first = t_options(100, NULL, NULL), second = first;
  first.restore = ONSTACK_RESTORE_IGNORE;
  onstack_session *installs = t_start(&first), *joins = t_start(&second);
  t_finish(installs);
  cr_assert_neq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN, "still in use");
  t_finish(joins);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
}

Test(action, it_stays_until_the_last_session_stops) {
  onstack_session *first = t_start(NULL), *second = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  t_finish(first);
  cr_assert_eq(t_action(SIGPROF).handler, ours);
  t_finish(second);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
}

/* SA_RESETHAND would have been spent without us too. */
Test(action, a_one_shot_that_was_used_comes_back_used) {
  struct sigaction once = {.sa_handler = plain_handler, .sa_flags = SA_RESETHAND};
  sigaction(SIGPROF, &once, NULL);
  onstack_session *session = t_start(NULL);
  raise(SIGPROF);
  raise(SIGPROF); /* over SIG_DFL now: swallowed, where it would have killed */
  onstack_stats stats = t_finish(session);
  cr_assert_eq(plain_calls, 1);
  cr_assert_eq(stats.forwarded, 1);
  cr_assert_eq(stats.swallowed, 1);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_DFL);
}

/* ---- a newer owner ---- */

static struct sigaction below_newer;
static volatile int newer_calls;
static void newer_chains(int signal, siginfo_t *info, void *context) {
  newer_calls++;
  if (below_newer.sa_flags & SA_SIGINFO && below_newer.sa_sigaction) below_newer.sa_sigaction(signal, info, context);
}

static void install_newer(void) {
  struct sigaction newer = {.sa_sigaction = newer_chains, .sa_flags = SA_SIGINFO | SA_RESTART};
  cr_assert_eq(sigaction(SIGPROF, &newer, &below_newer), 0);
}

Test(action, a_newer_owner_stays_and_ours_becomes_a_pass_through) {
  signal(SIGPROF, plain_handler);
  onstack_session *session = t_start(NULL);
  install_newer();
  struct onstack_kernel_sigaction newer = t_action(SIGPROF);
  raise(SIGPROF);
  t_finish(session);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&newer, &after), "the newer owner is undisturbed");
  raise(SIGPROF);
  cr_assert_geq(newer_calls, 2);
  cr_assert_eq(plain_calls, 2, "through the newer owner and through us, before and after stop");
}

Test(action, our_pointer_put_back_after_our_stop_passes_on_and_can_start_again) {
  signal(SIGPROF, plain_handler);
  struct onstack_kernel_sigaction found = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  install_newer();
  t_finish(session);
  sigaction(SIGPROF, &below_newer, NULL); /* the newer owner leaves and puts us back */
  raise(SIGPROF);
  cr_assert_eq(plain_calls, 1);
  run_session(ONSTACK_RESTORE_EXACT);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&found, &after), "what we had found at first");
}

/* ours -> newer -> ours: a loop unless it is noticed. */
Test(action, starting_again_over_an_owner_that_chains_to_us_does_not_loop) {
  onstack_session *session = t_start(NULL);
  install_newer();
  t_finish(session);
  newer_calls = 0; /* a tick may have come before the stop */
  session = t_start(NULL);
  for (int i = 0; i < 3; i++) raise(SIGPROF);
  t_burn(0.1);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(newer_calls, 3, "each foreign signal reaches its owner once, got %d", newer_calls);
  cr_assert_gt(stats.ticks, 3, "and ours are recorded");
}

/* ---- SA_RESTART: the previous handler's EINTR stays, over the default disposition system calls restart ---- */

static void *tick_at_main(void *target) {
  t_sleep(0.2);
  pthread_kill(*(pthread_t *)target, SIGPROF);
  t_sleep(0.2);
  return NULL;
}

/* A read of an empty pipe, hit by one foreign SIGPROF; true if it came back with EINTR before the writer closed. */
static bool read_is_interrupted(void) {
  int ends[2];
  char byte;
  pthread_t self = pthread_self(), other;
  cr_assert_eq(pipe(ends), 0);
  pthread_create(&other, NULL, tick_at_main, &self);
  t_deadline(10);
  int child = fork();
  if (child == 0) { /* holds the write end for a while, so that a restarted read ends too */
    t_sleep(0.6);
    _exit(0);
  }
  close(ends[1]);
  ssize_t got = read(ends[0], &byte, 1);
  bool interrupted = got < 0 && errno == EINTR;
  pthread_join(other, NULL);
  close(ends[0]);
  waitpid(child, NULL, 0);
  return interrupted;
}

static void restart_case(struct sigaction *found, bool interrupted) {
  cr_assert_eq(sigaction(SIGPROF, found, NULL), 0);
  onstack_session *session = t_start(NULL);
  cr_assert_eq(read_is_interrupted(), interrupted);
  t_finish(session);
}

Test(action, eintr_of_a_found_handler_without_restart_is_kept) {
  restart_case(&(struct sigaction){.sa_handler = plain_handler}, true);
  cr_assert_eq(plain_calls, 1);
}
Test(action, no_eintr_over_a_found_handler_with_restart) {
  restart_case(&(struct sigaction){.sa_handler = plain_handler, .sa_flags = SA_RESTART}, false);
  cr_assert_eq(plain_calls, 1);
}
Test(action, no_eintr_over_nobody) {
  restart_case(&(struct sigaction){.sa_handler = SIG_DFL}, false);
  restart_case(&(struct sigaction){.sa_handler = SIG_IGN}, false);
}

Test(action, a_second_session_that_wants_the_alternate_stack_gets_it) {
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_options off = t_options(100, NULL, NULL), on = off;
  off.on_stack = ONSTACK_OFF;
  onstack_session *first = t_start(&off);
  cr_assert_eq(t_action(SIGPROF).flags & SA_ONSTACK, 0);
  onstack_session *second = t_start(&on);
  cr_assert(t_action(SIGPROF).flags & SA_ONSTACK);
  t_finish(second);
  t_finish(first);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}
