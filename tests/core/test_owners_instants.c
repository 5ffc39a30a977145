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

enum { ORDER_NONE, ORDER_COME, ORDER_LEAVE, ORDER_SIGNAL, ORDER_START, ORDER_STOP, ORDER_LOOK, ORDER_FORK };

static struct {
  uint32_t order[2], done[2]; /* of the owner's thread, and of the one that is stopped */
  int32_t tid;
  int first_calls, owner_calls;
  uint64_t looped;
  bool found_itself;
  int child_status; /* of a child made by fork(): who has the signal there */
} *shared;

static struct sigaction instants_found;
static bool instants_chains;

static void instants_first(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  shared->first_calls += info->si_code == SI_TKILL;
}

static void instants_owner(int signal, siginfo_t *info, void *context) {
  shared->owner_calls += info->si_code == SI_TKILL;
  if (instants_chains) instants_found.sa_sigaction(signal, info, context);
}

static void instants_come(void) {
  struct sigaction mine = {.sa_sigaction = instants_owner, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (sigaction(SIGPROF, &mine, &instants_found) != 0) _exit(90);
  shared->found_itself = instants_found.sa_sigaction == instants_owner;
}

enum { CHILD_OWNER = 1, CHILD_FIRST, CHILD_OTHER };

static int instants_in_a_child(void) {
  struct sigaction now;
  int child = fork();
  if (child != 0) return t_wait(child);
  sigaction(SIGPROF, NULL, &now);
  _exit(now.sa_sigaction == instants_owner ? CHILD_OWNER : now.sa_sigaction == instants_first ? CHILD_FIRST : CHILD_OTHER);
}

static void instants_obey(uint32_t order) {
  static onstack_session *session;
  onstack_options options = t_options(100, NULL, NULL);
  options.threads = ONSTACK_OFF;
  onstack_stats stats = {.size = sizeof(stats)};
  switch (order) {
  case ORDER_COME: instants_come(); break;
  case ORDER_LEAVE: sigaction(SIGPROF, &instants_found, NULL); break;
  case ORDER_SIGNAL: raise(SIGPROF); break;
  case ORDER_FORK: shared->child_status = instants_in_a_child(); break;
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
  uint32_t what; /* ORDER_START, _LOOK or _STOP: what the observed thread does */
  bool chains, there; /* the owner: passes on; has come before */
  bool beside;        /* another copy runs */
  int first, second;  /* the stops at which the owner comes or leaves; it changes over each time */
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
  cr_assert(shared->first_calls == first && shared->owner_calls == owner,
            "at stop %d of a %s, with an owner that %s, %s before, and changes over at %d and %d: the first owner has a signal "
            "%d times, not %d, the newer one %d times, not %d",
            stop, p->what == ORDER_START ? "start" : p->what == ORDER_STOP ? "stop" : "look", p->chains ? "chains" : "does not chain",
            p->there ? "was there" : "was not there", p->first, p->second, shared->first_calls, first, shared->owner_calls, owner);
  order(0, ORDER_FORK);
  const int expected = owner_is_there ? CHILD_OWNER : CHILD_FIRST;
  cr_assert_eq(shared->child_status, expected, "at stop %d of order %u, changes at %d and %d: a child has %d, not %d", stop,
               p->what, p->first, p->second, shared->child_status, expected);
}

static bool is_sigaction(int32_t tid) {
  struct __ptrace_syscall_info info;
  static bool inside;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0) return false;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) return inside = info.entry.nr == SYS_rt_sigaction && info.entry.args[0] == SIGPROF;
  return info.op == PTRACE_SYSCALL_INFO_EXIT && inside;
}

static void end(int child, int32_t tid) {
  int status;
  kill(child, SIGKILL);
  while (waitpid(tid, &status, __WALL) == tid && !WIFEXITED(status) && !WIFSIGNALED(status)) continue;
  waitpid(child, &status, __WALL);
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
    if (stops == p->first) change_over();
    if (stops == p->second) change_over();
    if (has_found_itself(p)) {
      end(child, tid);
      return stops;
    }
    reaches_whom_it_should(p, stops++);
  }
  ptrace(PTRACE_DETACH, tid, NULL, NULL);
  if (p->what == ORDER_STOP) order(0, ORDER_START);
  order(0, ORDER_LOOK);
  reaches_whom_it_should(p, -1);
  if (owner_is_there) change_over();
  order(0, ORDER_LOOK);
  reaches_whom_it_should(p, -2);
  order(0, ORDER_STOP);
  cr_assert_eq(shared->looped, 0u);
  end(child, tid);
  return stops;
}

static void every_instant(uint32_t what, bool beside) {
  t_deadline(200);
  if (beside) t_copies_open(false);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int way = 0; way < 4; way++) {
    plan p = {what, way & 1, way & 2, beside, -1, -1};
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
