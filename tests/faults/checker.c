/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "checker.h"

#include "command.h"
#include "filter.h"
#include "outside.h"
#include "subject.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECKER_SECONDS 30.0 /* a subject that takes so long hangs: it takes a tenth of one */
#define CHECKER_LINGER 1.0   /* a thread that has ended may be listed for a moment more */

static const char *const checker_phases[] = {"setting up", "waiting", "start",   "sampling",         "write",
                                             "stop",       "free",    "looking", "the next session", "the end"};

static int checker_page;

plan *checker_plan(void) {
  checker_page = memfd_create("plan", MFD_CLOEXEC);
  if (checker_page < 0 || ftruncate(checker_page, sizeof(plan)) != 0) return NULL;
  void *page = mmap(NULL, sizeof(plan), PROT_READ | PROT_WRITE, MAP_SHARED, checker_page, 0);
  return page == MAP_FAILED ? NULL : page;
}

static double checker_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A wake has no failure, and who waits for libc's mutexes sleeps until it comes. */
static bool checker_spares(const struct seccomp_notif *asked) {
  return asked->data.nr == SYS_futex && (asked->data.args[1] & FUTEX_CMD_MASK) == FUTEX_WAKE;
}

static bool checker_fails(plan *plan, const struct seccomp_notif *asked) {
  if (!plan->armed || (int32_t)asked->pid == plan->host || checker_spares(asked)) return false;
  if (plan->call == PLAN_EVERY_CALL) {
    if (asked->data.nr >= 0 && asked->data.nr < PLAN_MAX_CALL) plan->calls[asked->data.nr]++;
    return false;
  }
  uint64_t index = ++plan->seen;
  if (plan->nth == 0 || index < plan->nth || (!plan->persistent && index > plan->nth)) return false;
  plan->injected++;
  return true;
}

static void checker_reply(plan *plan, int listener) {
  struct seccomp_notif asked = {0};
  struct seccomp_notif_resp reply = {0};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return; /* a signal took it back, or it has died */
  reply.id = asked.id;
  /* brk returns where the break is, never an error: libc compares. */
  if (checker_fails(plan, &asked))
    reply.error = asked.data.nr == SYS_brk ? 0 : -plan->error;
  else
    reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

typedef struct checker_view {
  outside before, after;
  double looked; /* when the first look after was taken; 0: not yet */
} checker_view;

/* A timer that the kernel does not delete stays in its table, and our handler where it does not stop it either; an action that
   it does not take stays as it is, and a descriptor that cannot be told from a host's is not closed. */
static void checker_forgive(const plan *plan, checker_view *view) {
  bool most = plan->call == PLAN_MOST_CALLS;
  if (most || plan->call == SYS_timer_delete) view->after.timers = view->before.timers;
  if (most || (plan->call == SYS_fstat && (plan->persistent || plan->midway))) view->after.fds = view->before.fds;
  const bool ticks_on = plan->call == SYS_timer_delete && plan->also[0] == SYS_timer_settime;
  if (most || ticks_on || plan->call == SYS_rt_sigaction) view->after.profiling = view->before.profiling;
}

/* Moves the subject on when it waits to be looked at. */
static void checker_look(plan *plan, int pid, checker_view *view) {
  if (plan->phase == PLAN_BEFORE && plan->go < PLAN_BEFORE) {
    view->before = outside_look(pid);
    plan->go = PLAN_BEFORE;
  } else if (plan->phase == PLAN_AFTER && plan->go < PLAN_AFTER) {
    view->after = outside_look(pid);
    checker_forgive(plan, view);
    if (view->looked == 0) view->looked = checker_now();
    if (outside_same(&view->before, &view->after) || checker_now() - view->looked > CHECKER_LINGER) plan->go = PLAN_AFTER;
  }
}

static void checker_complain(plan *plan, const char *text) {
  if (plan->complaint[0] == 0) snprintf(plan->complaint, sizeof(plan->complaint), "%s", text);
}

static void checker_status(plan *plan, int status, bool hung) {
  char text[128];
  int phase = plan->phase;
  if (hung)
    snprintf(text, sizeof(text), "hangs in %s", checker_phases[phase]);
  else if (WIFSIGNALED(status))
    snprintf(text, sizeof(text), "killed by signal %d in %s", WTERMSIG(status), checker_phases[phase]);
  else if (WEXITSTATUS(status) != plan->status || (phase != PLAN_END && !plan->skipped[0]))
    snprintf(text, sizeof(text), "ended with status %d in %s", WEXITSTATUS(status), checker_phases[phase]);
  else
    return;
  /* Worse than whatever it said before. */
  plan->complaint[0] = 0;
  checker_complain(plan, text);
}

static void checker_left(plan *plan, const checker_view *view) {
  const outside *a = &view->before, *b = &view->after;
  char text[160];
  if (view->looked == 0 || outside_same(a, b)) return;
  snprintf(text, sizeof(text), "left behind: threads %d -> %d, descriptors %d -> %d, timers %d -> %d, action %d -> %d",
           a->threads, b->threads, a->fds, b->fds, a->timers, b->timers, a->profiling, b->profiling);
  checker_complain(plan, text);
}

static void checker_watch(plan *plan, int pid, int listener) {
  checker_view view = {0};
  int status = 0;
  double end = checker_now() + CHECKER_SECONDS;
  bool hung = false;
  struct pollfd asked = {listener, POLLIN, 0}; /* a negative descriptor is only a pause */
  while (waitpid(pid, &status, WNOHANG) == 0) {
    asked.revents = 0;
    if (poll(&asked, 1, 1) > 0 && asked.revents & POLLIN) checker_reply(plan, listener);
    checker_look(plan, pid, &view);
    if (checker_now() < end) continue;
    hung = true;
    kill(pid, SIGKILL);
    end = 1e300;
  }
  checker_status(plan, status, hung);
  checker_left(plan, &view);
}

int checker_run(plan *plan) {
  int sockets[2];
  plan->complaint[0] = plan->skipped[0] = 0;
  plan->phase = plan->go = plan->armed = plan->host = 0;
  plan->seen = plan->injected = plan->at_start = plan->ticks = plan->samples = plan->at_filter = 0;
  memset((void *)plan->calls, 0, sizeof(plan->calls));
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return 1;
  fflush(NULL);
  int pid = fork();
  if (pid == 0) {
    close(sockets[0]);
    if (plan->command) command_run(plan, checker_page, sockets[1]);
    subject_run(plan, sockets[1]);
  }
  close(sockets[1]);
  int listener = plan->call == PLAN_NO_CALL || plan->denied ? -1 : filter_receive(sockets[0]);
  checker_watch(plan, pid, listener);
  if (listener >= 0) close(listener);
  close(sockets[0]);
  return plan->complaint[0] != 0;
}
