/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A start changes the signal's action in several system calls, and between any two of them other threads go on: owners
 * come and leave, signals arrive, while the starting thread perhaps waits for a processor. Here a parent stops that thread
 * by ptrace before and after each of them and lets everything happen there, one instant after the other: each foreign
 * signal must reach those who would have it without us.
 */
#include "copies.h"
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(owners_instants, .init = t_setup);

/* ---- the process under observation ---- */

enum {
  ORDER_NONE,
  ORDER_COME,
  ORDER_LEAVE,
  ORDER_SIGNAL,
  ORDER_START,
  ORDER_STOP,
  ORDER_LOOK,
  ORDER_FORK,
  ORDER_COME_ONCE,
  ORDER_SECOND,
  ORDER_IGNORE,
  ORDER_ASK
};

static struct {
  uint32_t order[2], done[2]; /* of the owner's thread, and of the one that is stopped */
  int32_t tid;
  int first_calls, owner_calls;
  uint64_t looped;
  bool found_itself;
  int child_status; /* of a child made by fork(): who has the signal there */
  int on_top;       /* who has it here */
} * shared;

static struct sigaction instants_found, instants_found_second;
static bool instants_chains, instants_over_default;

static void instants_first(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  shared->first_calls += info->si_code == SI_TKILL;
}

static void instants_owner(int signal, siginfo_t *info, void *context) {
  shared->owner_calls += info->si_code == SI_TKILL;
  if (instants_chains) instants_found.sa_sigaction(signal, info, context);
}

static void instants_second(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static void instants_come(int flags) {
  struct sigaction mine = {.sa_sigaction = instants_owner, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
  if (sigaction(SIGPROF, &mine, &instants_found) != 0) _exit(90);
  shared->found_itself = instants_found.sa_sigaction == instants_owner;
}

enum { HAS_OWNER = 1, HAS_FIRST, HAS_SECOND, HAS_IGNORE, HAS_DEFAULT, HAS_OTHER };

static int instants_who_has_it(void) {
  struct sigaction now;
  sigaction(SIGPROF, NULL, &now);
  if (now.sa_handler == SIG_IGN) return HAS_IGNORE;
  if (now.sa_handler == SIG_DFL) return HAS_DEFAULT;
  if (now.sa_sigaction == instants_second) return HAS_SECOND;
  return now.sa_sigaction == instants_owner ? HAS_OWNER : now.sa_sigaction == instants_first ? HAS_FIRST : HAS_OTHER;
}

/* Where the second owner has it, that one leaves, and a signal tells who comes after it. */
static int instants_in_a_child(void) {
  int child = fork();
  if (child != 0) return t_wait(child);
  int has_it = instants_who_has_it();
  if (has_it != HAS_SECOND) _exit(has_it);
  sigaction(SIGPROF, &instants_found_second, NULL);
  shared->owner_calls = shared->first_calls = 0;
  raise(SIGPROF);
  _exit(shared->owner_calls == 1 ? HAS_OWNER : shared->first_calls == 1 ? HAS_FIRST : HAS_OTHER);
}

static void instants_obey(uint32_t order) {
  static onstack_session *session;
  onstack_options options = t_options(100, NULL, NULL);
  options.threads = ONSTACK_OFF;
  onstack_stats stats = {.size = sizeof(stats)};
  struct sigaction second = {.sa_sigaction = instants_second, .sa_flags = SA_SIGINFO | SA_RESTART};
  switch (order) {
  case ORDER_COME:
    instants_come(0);
    break;
  case ORDER_COME_ONCE:
    instants_come((int)SA_RESETHAND);
    break;
  case ORDER_SECOND:
    sigaction(SIGPROF, &second, &instants_found_second);
    break;
  case ORDER_IGNORE:
    signal(SIGPROF, SIG_IGN);
    break;
  case ORDER_ASK:
    shared->on_top = instants_who_has_it();
    break;
  case ORDER_LEAVE:
    sigaction(SIGPROF, &instants_found, NULL);
    break;
  case ORDER_SIGNAL:
    raise(SIGPROF);
    break;
  case ORDER_FORK:
    shared->child_status = instants_in_a_child();
    break;
  case ORDER_START:
    if (onstack_session_start(&options, &session) != 0) _exit(91);
    break;
  case ORDER_LOOK:
    if (onstack_session_poll(session, 0) < 0) _exit(92);
    break;
  case ORDER_STOP:
    if (onstack_session_stop(session) != 0 || onstack_session_stats(session, &stats) != 0) _exit(93);
    shared->looped = stats.looped;
    onstack_session_free(session);
    break;
  }
}

static void instants_serve(int which) {
  for (;;) {
    uint32_t order;
    while ((order = __atomic_load_n(&shared->order[which], __ATOMIC_ACQUIRE)) == ORDER_NONE) t_sleep(0.00002);
    instants_obey(order);
    __atomic_store_n(&shared->order[which], ORDER_NONE, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared->done[which], 1u, __ATOMIC_RELEASE);
  }
}

static void *instants_starter(void *data) {
  (void)data;
  sigset_t prof;
  sigemptyset(&prof);
  sigaddset(&prof, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &prof, NULL); /* what is raised is raised elsewhere */
  __atomic_store_n(&shared->tid, onstack_sys_gettid(), __ATOMIC_RELEASE);
  instants_serve(1);
  return NULL;
}

static void instants_start_another(t_copy *copy) {
  onstack_options options;
  copy->init(&options, sizeof(options));
  options.threads = ONSTACK_OFF;
  if (copy->start(&options, &copy->session) != 0) _exit(95);
}

static void instants_child(bool chains, bool beside) {
  pthread_t thread;
  struct sigaction first = {.sa_sigaction = instants_first, .sa_flags = SA_SIGINFO | SA_RESTART};
  t_deadline(30);
  instants_chains = chains;
  if (instants_over_default)
    signal(SIGPROF, SIG_DFL);
  else
    sigaction(SIGPROF, &first, NULL);
  instants_obey(ORDER_START); /* the very first start takes its measure of libc */
  instants_obey(ORDER_STOP);
  if (beside) instants_start_another(&t_copies[1]);
  if (pthread_create(&thread, NULL, instants_starter, NULL) != 0) _exit(94);
  instants_serve(0);
}

/* ---- the parent ---- */

static void order(int which, uint32_t what) {
  uint32_t done = __atomic_load_n(&shared->done[which], __ATOMIC_ACQUIRE);
  __atomic_store_n(&shared->order[which], what, __ATOMIC_RELEASE);
  if (which == 1) return; /* it is stopped on its way */
  while (__atomic_load_n(&shared->done[which], __ATOMIC_ACQUIRE) == done) t_sleep(0.00002);
}

typedef struct plan {
  uint32_t what;      /* ORDER_START, _LOOK or _STOP: what the observed thread does */
  bool chains, there; /* the owner: passes on; has come before */
  bool beside;        /* another copy runs */
  int first, second;  /* the stops at which the owner comes or leaves; it changes over each time */
  void (*instead)(const struct plan *, int stop); /* of all that: what happens at each stop, and at -1 in the end */
} plan;

static bool owner_is_there;

static void change_over(void) {
  order(0, owner_is_there ? ORDER_LEAVE : ORDER_COME);
  owner_is_there = !owner_is_there;
}

/* There is no compare and swap of actions, so a stop has two instants that others can see (docs/SIGNALS.md). One: an owner that
   leaves just before it is given the action is installed until the stop has seen that; one that comes again just then has
   found itself, and nobody can tell. */
static bool has_found_itself(const plan *p) {
  cr_assert(!shared->found_itself || p->what == ORDER_STOP, "an owner that had left is installed");
  return shared->found_itself;
}

/* In the other, an owner that came between the last look and the change is replaced by the one below it, and one that left
   has the signal, until the stop has seen that and goes above. */
static bool is_misled(const plan *p, int stop) {
  const int last = stop >= p->second && p->second > p->first ? p->second : p->first;
  if (p->what != ORDER_STOP || last < 1 || last > 2 || stop < 3 || stop > 4) return false;
  if (owner_is_there) return shared->first_calls == 1 && shared->owner_calls == 0;
  return shared->first_calls == p->chains && shared->owner_calls == 1;
}

static void reaches_whom_it_should(const plan *p, int stop) {
  shared->first_calls = shared->owner_calls = 0;
  order(0, ORDER_SIGNAL);
  int first = !owner_is_there || p->chains, owner = owner_is_there;
  if (is_misled(p, stop)) return;
  cr_assert(
      shared->first_calls == first && shared->owner_calls == owner,
      "at stop %d of a %s, with an owner that %s, %s before, and changes over at %d and %d: the first owner has a signal "
      "%d times, not %d, the newer one %d times, not %d",
      stop,
      p->what == ORDER_START  ? "start"
      : p->what == ORDER_STOP ? "stop"
                              : "look",
      p->chains ? "chains" : "does not chain", p->there ? "was there" : "was not there", p->first, p->second,
      shared->first_calls, first, shared->owner_calls, owner);
  order(0, ORDER_FORK);
  const int expected = owner_is_there ? HAS_OWNER : HAS_FIRST;
  cr_assert_eq(shared->child_status, expected, "at stop %d of order %u, changes at %d and %d: a child has %d, not %d", stop,
               p->what, p->first, p->second, shared->child_status, expected);
}

static bool is_sigaction(int32_t tid) {
  struct __ptrace_syscall_info info;
  static bool inside;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0) return false;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
    return inside = info.entry.nr == SYS_rt_sigaction && info.entry.args[0] == SIGPROF;
  return info.op == PTRACE_SYSCALL_INFO_EXIT && inside;
}

static void end(int child, int32_t tid) {
  int status;
  kill(child, SIGKILL);
  while (waitpid(tid, &status, __WALL) == tid && !WIFEXITED(status) && !WIFSIGNALED(status)) continue;
  waitpid(child, &status, __WALL);
}

static void each_stop(const plan *p, int stop) {
  if (p->instead) {
    p->instead(p, stop);
    return;
  }
  if (stop == p->first) change_over();
  if (stop == p->second) change_over();
  if (!has_found_itself(p)) reaches_whom_it_should(p, stop);
}

static void afterwards(const plan *p) {
  if (p->instead) {
    p->instead(p, -1);
    return;
  }
  if (p->what == ORDER_STOP) order(0, ORDER_START);
  order(0, ORDER_LOOK);
  reaches_whom_it_should(p, -1);
  if (owner_is_there) change_over();
  order(0, ORDER_LOOK);
  reaches_whom_it_should(p, -2);
  order(0, ORDER_STOP);
  cr_assert_eq(shared->looped, 0u);
}

/* Returns how many stops there were. */
static int observe(const plan *p) {
  int status, stops = 0;
  memset(shared, 0, sizeof(*shared));
  int child = fork();
  if (child == 0) instants_child(p->chains, p->beside);
  while (__atomic_load_n(&shared->tid, __ATOMIC_ACQUIRE) == 0) t_sleep(0.0001);
  int32_t tid = shared->tid;
  cr_assert_eq(ptrace(PTRACE_SEIZE, tid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)), 0, "%d", errno);
  if (p->what != ORDER_START) {
    order(1, ORDER_START);
    while (__atomic_load_n(&shared->done[1], __ATOMIC_ACQUIRE) == 0) t_sleep(0.0001);
  }
  owner_is_there = false;
  if (p->there) change_over();
  if (p->there && p->what == ORDER_STOP) order(0, ORDER_LOOK);
  uint32_t done = __atomic_load_n(&shared->done[1], __ATOMIC_ACQUIRE);
  cr_assert_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
  cr_assert_eq(waitpid(tid, &status, __WALL), tid);
  order(1, p->what);
  for (;;) {
    cr_assert_eq(ptrace(PTRACE_SYSCALL, tid, NULL, NULL), 0);
    cr_assert_eq(waitpid(tid, &status, __WALL), tid);
    cr_assert(WIFSTOPPED(status), "it ended: %x", status);
    if (__atomic_load_n(&shared->done[1], __ATOMIC_ACQUIRE) != done) break;
    if (!is_sigaction(tid)) continue;
    each_stop(p, stops++);
    if (shared->found_itself) {
      end(child, tid);
      return stops - 1;
    }
  }
  ptrace(PTRACE_DETACH, tid, NULL, NULL);
  afterwards(p);
  end(child, tid);
  return stops;
}

static void every_instant(uint32_t what, bool beside) {
  t_deadline(200);
  if (beside) t_copies_open(false);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int way = 0; way < 4; way++) {
    plan p = {what, way & 1, way & 2, beside, -1, -1, NULL};
    int stops = observe(&p);
    cr_assert_gt(stops, 1);
    for (p.first = 0; p.first < stops; p.first++)
      for (p.second = p.first; p.second < stops + 4; p.second++) observe(&p);
    cr_log_info("way %d: %d instants", way, stops);
  }
}

Test(owners_instants, of_a_start, .timeout = 200) { every_instant(ORDER_START, false); }
Test(owners_instants, of_a_look, .timeout = 200) { every_instant(ORDER_LOOK, false); }
Test(owners_instants, of_a_stop, .timeout = 200) { every_instant(ORDER_STOP, false); }
Test(owners_instants, of_a_start_beside_another_copy, .timeout = 200) { every_instant(ORDER_START, true); }
Test(owners_instants, of_a_look_beside_another_copy, .timeout = 200) { every_instant(ORDER_LOOK, true); }
Test(owners_instants, of_a_stop_beside_another_copy, .timeout = 200) { every_instant(ORDER_STOP, true); }

#define NEVER 1000

/* ---- an owner that wants one signal only ---- */

/* Once it has had it, the default disposition is behind it, so the kernel must not see it on top. */
static void once(const plan *p, int stop) {
  if (stop == p->first) order(0, ORDER_COME_ONCE);
  if (p->first >= NEVER || (stop >= 0 && stop < p->first)) return;
  order(0, ORDER_ASK);
  if (shared->on_top == HAS_OTHER) order(0, ORDER_SIGNAL);
  cr_assert_leq(shared->owner_calls, 1, "at stop %d, come at %d: called %d times", stop, p->first, shared->owner_calls);
  if (stop >= 0) return;
  order(0, ORDER_LOOK);
  order(0, ORDER_SIGNAL);
  order(0, ORDER_SIGNAL);
  cr_assert_eq(shared->owner_calls, 1, "come at %d: called %d times", p->first, shared->owner_calls);
}

/* ---- two that come, and a child that is made while the change knows of one ---- */

static void two(const plan *p, int stop) {
  if (stop < 0) return;
  if (stop == p->first) order(0, ORDER_COME);
  if (stop == p->second) order(0, ORDER_SECOND);
  if (stop < p->second) return;
  order(0, ORDER_ASK);
  if (shared->on_top != HAS_SECOND) return;
  order(0, ORDER_FORK);
  cr_assert_eq(shared->child_status, HAS_OWNER, "at stop %d, come at %d and %d: behind the second is %d", stop, p->first,
               p->second, shared->child_status);
}

/* ---- a host that wants the signal ignored, at the moment of a stop ---- */

static void ignored(const plan *p, int stop) {
  if (stop == p->first) order(0, ORDER_IGNORE);
  if (stop >= 0) return;
  order(0, ORDER_ASK);
  cr_assert_eq(shared->on_top, p->first < p->second ? HAS_IGNORE : HAS_FIRST, "at %d of %d: %d", p->first, p->second,
               shared->on_top);
}

/* ---- over SIG_DFL, an owner whose timers may outlive its visit at the moment of a stop ---- */

/* Between two system calls (from the second stop of one to the first of the next) it cannot be seen. */
static bool is_seen(const plan *p) { return p->second > p->first + p->first % 2; }

static void visited(const plan *p, int stop) {
  if (stop == p->first) order(0, ORDER_COME);
  if (stop == p->second || (stop < 0 && p->second >= NEVER)) order(0, ORDER_LEAVE);
  if (stop >= 0) return;
  order(0, ORDER_ASK);
  cr_assert(!is_seen(p) || shared->on_top != HAS_DEFAULT, "come at %d, left at %d: a late tick kills", p->first, p->second);
}

Test(owners_instants, of_a_stop_over_the_default_with_a_visit, .timeout = 100) {
  t_deadline(100);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  instants_over_default = true;
  plan p = {ORDER_STOP, false, false, false, NEVER + 1, NEVER + 1, visited};
  const int stops = observe(&p); /* the last of them is behind all that a stop sees */
  for (p.first = 0; p.first < stops - 1; p.first++) {
    for (p.second = p.first; p.second < stops; p.second++) observe(&p);
    p.second = NEVER;
    observe(&p);
  }
}

static void instead(uint32_t what, bool beside, void (*at)(const plan *, int stop), bool pairs) {
  t_deadline(100);
  if (beside) t_copies_open(false);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  plan p = {what, false, false, beside, NEVER, NEVER, at};
  const int stops = observe(&p);
  for (p.first = 0; p.first < stops; p.first++)
    for (p.second = pairs ? p.first : stops; p.second < stops + !pairs; p.second++) observe(&p);
}

Test(owners_instants, of_a_start_with_one_that_wants_one_signal, .timeout = 100) {
  instead(ORDER_START, false, once, false);
}
Test(owners_instants, of_a_look_with_one_that_wants_one_signal, .timeout = 100) { instead(ORDER_LOOK, false, once, false); }
Test(owners_instants, of_a_start_with_two_and_a_child, .timeout = 100) { instead(ORDER_START, false, two, true); }
Test(owners_instants, of_a_look_with_two_and_a_child, .timeout = 100) { instead(ORDER_LOOK, false, two, true); }
Test(owners_instants, of_a_stop_with_a_host_that_ignores, .timeout = 100) { instead(ORDER_STOP, false, ignored, false); }
