/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A guest: signals that are not ours reach their owner whole, under the mask that the owner asked for. */
#include "support.h"

#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

TestSuite(forward, .init = t_setup);

T_BURNER(burn_forward)

typedef struct owner_record {
  volatile int calls, queued, timers, itimers, inside, depth, deepest;
  volatile int value, code, pid;
  volatile uint64_t mask;
} owner_record;
static owner_record owner;

static void owner_info(int signal, siginfo_t *info, void *context) {
  onstack_kernel_sigset mask = 0;
  (void)signal;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &mask);
  owner.mask = mask;
  owner.calls++;
  owner.code = info->si_code;
  if (info->si_code == SI_QUEUE) {
    owner.queued++;
    owner.value = info->si_value.sival_int;
    owner.pid = info->si_pid;
  }
  if (info->si_code == SI_TIMER) {
    owner.timers++;
    owner.value = info->si_value.sival_int;
  }
  if (info->si_code == SI_KERNEL) owner.itimers++;
#if defined(__x86_64__)
  uint64_t pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
  uint64_t pc = ((ucontext_t *)context)->uc_mcontext.pc;
#endif
  if (t_in_burn_forward(pc)) owner.inside++;
}

static void own(int flags, int masked) {
  struct sigaction action = {.sa_sigaction = owner_info, .sa_flags = SA_SIGINFO | flags};
  if (masked) sigaddset(&action.sa_mask, masked);
  cr_assert_eq(sigaction(SIGPROF, &action, NULL), 0);
}

static void queue_to_self(int value) { cr_assert_eq(sigqueue(getpid(), SIGPROF, (union sigval){.sival_int = value}), 0); }

Test(forward, a_queued_signal_arrives_with_its_value) {
  own(0, 0);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  for (int i = 1; i <= 50; i++) {
    queue_to_self(1000 + i);
    cr_assert_eq(owner.calls, i);
    cr_assert_eq(owner.code, SI_QUEUE);
    cr_assert_eq(owner.value, 1000 + i);
    cr_assert_eq(owner.pid, getpid());
  }
  t_burn(0.1);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(owner.calls, 50, "our own ticks are not the owner's");
  cr_assert_eq(stats.forwarded, 50);
  cr_assert_eq(stats.forwarded_timer, 0);
  cr_assert_eq(stats.swallowed, 0);
  cr_assert_gt(stats.ticks, 20);
}

/* What a sender might use to pass for us: our own cookies, read from the kernel's list of timers. */
Test(forward, our_cookie_sent_by_sigqueue_is_not_ours) {
  own(0, 0);
  onstack_session *session = t_start(NULL);
  FILE *file = fopen("/proc/self/timers", "re");
  char line[256];
  void *cookie = NULL;
  int sent = 0;
  while (fgets(line, sizeof(line), file)) {
    if (sscanf(line, "signal: %*d/%p", &cookie) != 1) continue;
    uint64_t ticks = t_stats(session).ticks;
    sigqueue(getpid(), SIGPROF, (union sigval){.sival_ptr = cookie});
    cr_assert_leq(t_stats(session).ticks, ticks + 1, "at most a real one came meanwhile");
    sent++;
  }
  fclose(file);
  onstack_stats stats = t_finish(session);
  cr_assert_geq(sent, 2, "a thread's timer and the process's");
  cr_assert_eq(owner.queued, sent);
  cr_assert_eq(stats.forwarded, sent);
  cr_assert_eq(stats.late, 0);
}

Test(forward, itimer_prof_belongs_to_others) {
  own(SA_RESTART, 0);
  struct itimerval every = {{0, 10000}, {0, 10000}}, now, off = {{0, 0}, {0, 0}};
  onstack_options options = t_options(250, NULL, NULL);
  onstack_session *session = t_start(&options);
  setitimer(ITIMER_PROF, &every, NULL);
  burn_forward(0.6);
  getitimer(ITIMER_PROF, &now);
  cr_assert_eq(now.it_interval.tv_usec, 10000, "its interval is as its owner set it");
  int calls;
  uint64_t forwarded;
  do { /* between two ticks */
    calls = owner.calls;
    forwarded = t_stats(session).forwarded;
  } while (calls != owner.calls);
  cr_assert_gt(calls, 15, "%d of 60", calls);
  cr_assert_eq((int)forwarded, calls);
  t_finish(session);
  calls = owner.calls;
  cr_assert_eq(owner.itimers, calls);
  cr_assert_geq(owner.inside, calls * 8 / 10, "the context is the interrupted code's: %d of %d", owner.inside, calls);
  burn_forward(0.1);
  cr_assert_gt(owner.calls, calls, "and it ticks on after us");
  setitimer(ITIMER_PROF, &off, NULL);
}

static timer_t foreign_timer(int value, double period) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF, .sigev_value.sival_int = value};
  event._sigev_un._tid = onstack_sys_gettid();
  long ns = (long)(period * 1e9);
  struct itimerspec every = {{0, ns}, {0, ns}};
  cr_assert_eq(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer), 0);
  cr_assert_eq(timer_settime(timer, 0, &every, NULL), 0);
  return timer;
}

Test(forward, a_foreign_posix_timer_is_the_owners) {
  own(0, 0);
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  timer_t timer = foreign_timer(4711, 0.010);
  burn_forward(0.6);
  timer_delete(timer);
  onstack_stats stats = t_finish(session);
  cr_assert_gt(owner.timers, 15);
  cr_assert_eq(owner.timers, owner.calls);
  cr_assert_eq(owner.value, 4711);
  cr_assert_geq(owner.inside, owner.calls * 8 / 10);
  cr_assert_eq((int)stats.forwarded_timer, owner.timers);
  cr_assert_eq(stats.forwarded, stats.forwarded_timer);
  t_near((double)stats.recorded * 0.01, 0.6, 0.15, "ours beside it");
}

/* Over the default disposition: swallowed and counted, and the process lives. */
static void swallowed_over(void (*handler)(int), int expected) {
  signal(SIGPROF, handler);
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 7; i++) queue_to_self(i);
  for (int i = 0; i < 3; i++) raise(SIGPROF);
  timer_t timer = foreign_timer(1, 0.005);
  t_burn(0.1);
  timer_delete(timer);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(stats.forwarded, 0);
  cr_assert_gt((int)stats.swallowed, expected + 5, "%lu", stats.swallowed);
}
Test(forward, over_sig_dfl_it_is_swallowed) { swallowed_over(SIG_DFL, 10); }
Test(forward, over_sig_ign_it_is_swallowed) { swallowed_over(SIG_IGN, 10); }

Test(forward, swallowed_is_exact) {
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 10; i++) queue_to_self(i);
  cr_assert_eq(t_finish(session).swallowed, 10);
}

/* ---- masks: what the kernel would have given, asked inside the owner's handler ---- */

#define BIT(signal) ONSTACK_SIGBIT(signal)
#define LIBC_ONLY (BIT(32) | BIT(33)) /* libc keeps these out of every mask that it is given */

static uint64_t mask_seen(int flags, int masked, int blocked, bool with_session) {
  sigset_t set;
  sigemptyset(&set);
  if (blocked) sigaddset(&set, blocked);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  own(flags, masked);
  onstack_session *session = with_session ? t_start(NULL) : NULL;
  owner.calls = 0;
  queue_to_self(1);
  cr_assert_eq(owner.calls, 1);
  if (session) t_finish(session);
  onstack_kernel_sigset left = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, NULL, &left);
  cr_assert_eq(left, blocked ? BIT(blocked) : 0, "the interrupted mask is back");
  return owner.mask;
}

Test(forward, the_owner_runs_under_the_mask_that_the_kernel_would_have_set) {
  static const struct {
    int flags, masked, blocked;
  } cases[] = {{0, 0, 0}, {SA_NODEFER, 0, 0}, {0, SIGUSR1, 0}, {SA_NODEFER, SIGUSR1, SIGUSR2}, {0, SIGHUP, SIGUSR2}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    uint64_t alone = mask_seen(cases[i].flags, cases[i].masked, cases[i].blocked, false);
    uint64_t through_us = mask_seen(cases[i].flags, cases[i].masked, cases[i].blocked, true);
    cr_assert_eq(alone, through_us, "case %zu: %lx without us, %lx through us", i, alone, through_us);
  }
}

static void owner_full(int signal, siginfo_t *info, void *context) { owner_info(signal, info, context); }

Test(forward, an_owner_that_blocks_everything_gets_everything) {
  struct sigaction action = {.sa_sigaction = owner_full, .sa_flags = SA_SIGINFO};
  sigfillset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  onstack_session *session = t_start(NULL);
  queue_to_self(1);
  t_finish(session);
  uint64_t everything = ~(BIT(SIGKILL) | BIT(SIGSTOP));
  cr_assert_eq(owner.mask | LIBC_ONLY, everything, "%lx", owner.mask);
}

/* With SA_NODEFER the owner may be interrupted by itself; without it may not. */
static void owner_nests(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  if (++owner.depth > owner.deepest) owner.deepest = owner.depth;
  if (info->si_value.sival_int > 0) queue_to_self(info->si_value.sival_int - 1);
  owner.calls++;
  owner.depth--;
}

static int nesting(int flags) {
  struct sigaction action = {.sa_sigaction = owner_nests, .sa_flags = SA_SIGINFO | flags};
  sigaction(SIGPROF, &action, NULL);
  onstack_session *session = t_start(NULL);
  owner.calls = owner.deepest = 0;
  queue_to_self(3);
  t_finish(session);
  cr_assert_eq(owner.calls, 4);
  return owner.deepest;
}
Test(forward, nesting_follows_sa_nodefer) {
  cr_assert_eq(nesting(0), 1);
  cr_assert_eq(nesting(SA_NODEFER), 4);
}

static void owner_plain(int signal) {
  if (signal == SIGPROF) owner.calls++;
}
Test(forward, a_handler_without_siginfo_gets_the_signal_number) {
  signal(SIGPROF, owner_plain);
  onstack_session *session = t_start(NULL);
  queue_to_self(5);
  raise(SIGPROF);
  cr_assert_eq(t_finish(session).forwarded, 2);
  cr_assert_eq(owner.calls, 2);
}
