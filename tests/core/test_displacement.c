/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Displacement: somebody installs an action over ours while we run. The owners here behave as real ones do: one that
 * does not pass signals on and restores the bare pointer that it had found (a Go c-archive), one that chains, one that
 * insists, and a second copy of this library.
 */
#include "sampler/signal/owners.h"
#include "support.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

TestSuite(displacement, .init = t_setup);

static volatile int base_calls, newer_calls;
static struct sigaction below_newer;

static void base_handler(int signal) {
  (void)signal;
  base_calls++;
}
static void newer_alone(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  (void)context;
  newer_calls++;
}
static void newer_chains(int signal, siginfo_t *info, void *context) {
  newer_calls++;
  below_newer.sa_sigaction(signal, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction newer = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  cr_assert_eq(sigaction(SIGPROF, &newer, &below_newer), 0);
}

/* What Go does when its profile ends: the pointer that it found, with flags and mask of its own. */
static void put_back_bare_pointer(void) {
  struct sigaction back = {.sa_sigaction = below_newer.sa_sigaction,
                           .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER};
  sigfillset(&back.sa_mask);
  cr_assert_eq(sigaction(SIGPROF, &back, NULL), 0);
}

/* Burns until ours (by either trampoline) is on top again, a second at most; the promise is 10 ms on an idle machine. */
static bool burn_until_on_top(uint64_t ours) {
  double end = t_now() + 1;
  while (t_now() < end) {
    t_burn(0.005);
    uint64_t now = t_action(SIGPROF).handler;
    if (now - ours + 1024 <= 2048) return true; /* they stand side by side */
  }
  return false;
}

Test(displacement, ours_goes_back_on_top_and_the_newer_owner_keeps_its_signals) {
  signal(SIGPROF, base_handler);
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(500, t_collect, collector);
  onstack_session *session = t_start(&options);
  uint64_t ours = t_action(SIGPROF).handler;
  install(newer_alone);
  struct onstack_kernel_sigaction newer = t_action(SIGPROF);
  cr_assert(burn_until_on_top(ours), "not noticed within a second");
  double before = t_thread_cpu();
  uint64_t weight = t_stats(session).ticks;
  int calls = newer_calls;
  t_burn(0.5);
  for (int i = 0; i < 10; i++) raise(SIGPROF);
  cr_assert_eq(newer_calls, calls + 10, "every foreign signal reaches the newer owner, none of our ticks does");
  cr_assert_eq(base_calls, 0, "which does not pass it on");
  onstack_stats stats = t_finish(session);
  t_near((double)(stats.ticks - weight) * 0.002, t_thread_cpu() - before, 0.25, "ticks after the return");
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&newer, &after), "the newer owner is what stop leaves");
  put_back_bare_pointer(); /* it ends after us: our pointer is back, a pass-through */
  raise(SIGPROF);
  cr_assert_eq(base_calls, 1);
  cr_assert_eq(newer_calls, calls + 10);
}

/* It finds a trampoline of ours the second time too, and calls that: the one that stands for itself. */
Test(displacement, an_owner_that_installs_itself_twice_and_chains_leaves_signals_to_the_one_below) {
  signal(SIGPROF, base_handler);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  for (int i = 0; i < 2; i++) {
    install(newer_chains);
    cr_assert(burn_until_on_top(ours), "not noticed within a second");
  }
  const int calls = newer_calls, base = base_calls;
  for (int i = 0; i < 10; i++) raise(SIGPROF);
  cr_assert_geq(newer_calls, calls + 10);
  cr_assert_eq(base_calls, base + 10, "%d of 10 signals", base_calls - base);
  t_finish(session);
}

Test(displacement, an_owner_that_leaves_under_us_is_forgotten) {
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  struct onstack_kernel_sigaction ours = t_action(SIGPROF);
  install(newer_alone);
  cr_assert(burn_until_on_top(ours.handler));
  put_back_bare_pointer();
  for (int i = 0; i < 100; i++) {
    struct onstack_kernel_sigaction now = t_action(SIGPROF);
    if (now.flags == ours.flags && now.mask == ours.mask) break;
    t_burn(0.005);
  }
  struct onstack_kernel_sigaction now = t_action(SIGPROF);
  cr_assert_eq(now.flags, ours.flags, "flags and mask are ours again");
  cr_assert_eq(now.mask, ours.mask);
  int calls = newer_calls;
  raise(SIGPROF);
  cr_assert_eq(base_calls, 1);
  cr_assert_eq(newer_calls, calls);
  t_finish(session);
  now = t_action(SIGPROF);
  cr_assert(t_same_action(&now, &before));
}

Test(displacement, a_start_over_our_own_pointer_ends_at_the_base) {
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  install(newer_alone);
  t_finish(session);       /* under the newer owner, noticed or not */
  put_back_bare_pointer(); /* our pointer, no session running */
  session = t_start(NULL);
  raise(SIGPROF);
  cr_assert_eq(base_calls, 1);
  cr_assert_eq(t_finish(session).looped, 0);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&after, &before));
}

Test(displacement, an_owner_that_chains_comes_first_and_the_base_after_it) {
  signal(SIGPROF, base_handler);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  install(newer_chains);
  cr_assert(burn_until_on_top(ours));
  int calls = newer_calls;
  for (int i = 0; i < 5; i++) raise(SIGPROF);
  cr_assert_eq(newer_calls, calls + 5);
  cr_assert_eq(base_calls, 5, "once each, through the owner that passes on");
  onstack_stats stats = t_finish(session);
  cr_assert_eq(stats.forwarded, 5);
  cr_assert_eq(stats.looped, 0);
}

Test(displacement, an_action_reset_to_ignore_does_not_end_sampling) {
  signal(SIGPROF, base_handler);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  signal(SIGPROF, SIG_IGN); /* an owner from before us that restores what it had found */
  cr_assert(burn_until_on_top(ours));
  uint64_t ticks = t_stats(session).ticks;
  t_burn(0.3);
  cr_assert_gt(t_stats(session).ticks, ticks + 10);
  raise(SIGPROF);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(base_calls, 0);
  cr_assert_eq(stats.swallowed, 1);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
}

/* Both want to be on top: we stay below after a few rounds. */
Test(displacement, a_fight_ends) {
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  int rounds = 0;
  double begin = t_now();
  for (int i = 0; i < 60; i++) {
    if (t_action(SIGPROF).handler - ours + 1024 <= 2048) {
      install(newer_chains);
      rounds++;
    }
    t_burn(0.01);
    raise(SIGPROF);
  }
  begin = t_now() - begin;
  cr_assert_leq(rounds, 10 + 9 * begin, "%d rounds in %.1f s", rounds, begin); /* eight a second */
  cr_assert_geq(rounds, 2, "it never came back");
  t_finish(session);
}

/* ---- two copies ---- */

typedef struct copy {
  int (*init)(onstack_options *, size_t);
  int (*start)(const onstack_options *, onstack_session **);
  int (*stop)(onstack_session *);
  int (*release)(onstack_session *);
  int (*stats)(const onstack_session *, onstack_stats *);
} copy;

static copy open_copy(void) {
  copy second;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  cr_assert_gt(length, 0);
  path[length] = 0;
  char *end = strstr(path, "/tests/core/");
  cr_assert_not_null(end);
  strcpy(end, "/lib/libonstack.so.0");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(library, "%s", dlerror());
  *(void **)&second.init = dlsym(library, "onstack_options_init");
  *(void **)&second.start = dlsym(library, "onstack_session_start");
  *(void **)&second.stop = dlsym(library, "onstack_session_stop");
  *(void **)&second.release = dlsym(library, "onstack_session_free");
  *(void **)&second.stats = dlsym(library, "onstack_session_stats");
  cr_assert_neq((uint64_t)(uintptr_t)second.start, (uint64_t)(uintptr_t)onstack_session_start, "it is the same copy");
  return second;
}

static void two_copies(bool first_stops_first) {
  copy second = open_copy();
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_options options;
  onstack_session *theirs, *session = t_start(NULL);
  second.init(&options, sizeof(options));
  cr_assert_eq(second.start(&options, &theirs), 0);
  uint64_t top = t_action(SIGPROF).handler;
  double cpu = t_thread_cpu();
  t_burn(1);
  cpu = t_thread_cpu() - cpu;
  cr_assert_eq(t_action(SIGPROF).handler, top, "a copy is not displaced");
  for (int i = 0; i < 10; i++) raise(SIGPROF);
  cr_assert_eq(base_calls, 10, "through both copies, once each");
  onstack_stats other = {.size = sizeof(other)};
  if (first_stops_first) {
    onstack_stats mine = t_finish(session);
    t_near((double)(mine.ticks * mine.period) * 1e-9, cpu, 0.2, "the first copy's ticks");
  }
  cr_assert_eq(second.stop(theirs), 0);
  cr_assert_eq(second.stats(theirs, &other), 0);
  second.release(theirs);
  t_near((double)(other.ticks * other.period) * 1e-9, cpu, 0.2, "the second copy's ticks");
  if (!first_stops_first) {
    onstack_stats mine = t_finish(session);
    t_near((double)(mine.ticks * mine.period) * 1e-9, cpu, 0.2, "the first copy's ticks");
    struct onstack_kernel_sigaction after = t_action(SIGPROF);
    cr_assert(t_same_action(&before, &after));
  }
  raise(SIGPROF);
  cr_assert_eq(base_calls, 11, "the owner is still reached");
}

Test(displacement, two_copies_last_one_stops_first) { two_copies(false); }
Test(displacement, two_copies_first_one_stops_first) { two_copies(true); }

/* ---- an owner that has left a moment ago is not the next owner ---- */

Test(displacement, a_stop_right_after_the_newer_owner_left_restores_the_base) {
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  install(newer_alone);
  for (int i = 0; i < 100 && t_action(SIGPROF).handler == (uint64_t)(uintptr_t)newer_alone; i++) t_burn(0.005);
  cr_assert_neq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)newer_alone);
  cr_assert_eq((uint64_t)(uintptr_t)below_newer.sa_sigaction, ours);
  put_back_bare_pointer();
  t_finish(session); /* before the next look */
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}

/* A polite owner puts back the whole action, byte for byte as it was. */
Test(displacement, an_owner_that_puts_back_the_whole_action_is_seen_to_leave) {
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF), found = before;
  onstack_session *session = t_start(NULL);
  found = t_action(SIGPROF);
  install(newer_alone);
  for (int i = 0; i < 100 && t_action(SIGPROF).handler == (uint64_t)(uintptr_t)newer_alone; i++) t_burn(0.005);
  cr_assert_eq(onstack_sys_sigaction(SIGPROF, &found, NULL), 0);
  for (int i = 0; i < 20; i++) t_burn(0.01);
  int calls = newer_calls;
  raise(SIGPROF);
  cr_assert_eq(base_calls, 1);
  cr_assert_eq(newer_calls, calls);
  t_finish(session);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}

/* It came under an earlier session of ours, found our pointer, and leaves under a later one. */
static void an_owner_from_between_two_sessions(bool noticed) {
  signal(SIGPROF, base_handler);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  install(newer_alone);
  if (noticed) cr_assert(burn_until_on_top(ours));
  t_finish(session);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)newer_alone);
  session = t_start(NULL); /* over the newer owner */
  newer_calls = 0;         /* until it was noticed it got our ticks as well */
  raise(SIGPROF);
  cr_assert_eq(newer_calls, 1);
  put_back_bare_pointer();
  for (int i = 0; i < 20; i++) t_burn(0.01);
  raise(SIGPROF);
  cr_assert_eq(base_calls, 1);
  cr_assert_eq(newer_calls, 1);
  t_finish(session);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after));
}

Test(displacement, an_owner_from_between_two_sessions_is_forgotten_when_it_leaves) {
  an_owner_from_between_two_sessions(false);
}
Test(displacement, and_so_is_one_that_the_first_session_had_noticed) { an_owner_from_between_two_sessions(true); }

/* Seen by the flags that it leaves behind. */
Test(displacement, an_owner_between_two_looks_has_been_there) {
  onstack_options options = t_options(100, NULL, NULL);
  options.threads = ONSTACK_OFF;
  signal(SIGPROF, SIG_IGN);
  onstack_session *session = t_start(&options);
  cr_assert(onstack_actions[SIGPROF].undisputed);
  install(newer_alone);
  put_back_bare_pointer();
  cr_assert_geq(onstack_session_poll(session, 0), 0);
  cr_assert_not(onstack_actions[SIGPROF].undisputed, "its late ticks could come to threads of ours");
  t_finish(session);
}

/* Its timers may tick on for a while, and SIG_DFL would kill: what such an owner itself leaves is SIG_IGN. */
Test(displacement, after_a_visit_nothing_deadlier_than_ignore_is_left) {
  signal(SIGPROF, SIG_DFL);
  onstack_session *session = t_start(NULL);
  uint64_t ours = t_action(SIGPROF).handler;
  install(newer_alone);
  cr_assert(burn_until_on_top(ours));
  put_back_bare_pointer();
  t_finish(session);
  cr_assert_eq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)SIG_IGN);
  raise(SIGPROF); /* a late tick of the owner's */
}
