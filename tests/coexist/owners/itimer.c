/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Beside a host that has its own ITIMER_PROF and a plain handler (no SA_SIGINFO, no SA_RESTART), before and after us. */
#include "../session.h"
#include "../support.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t calls;
static void on_tick(int signal) { calls += signal == SIGPROF; }

static void host_start(void) {
  const struct itimerval every = {{0, 10000}, {0, 10000}};
  struct sigaction action = {.sa_handler = on_tick};
  calls = 0;
  sigaction(SIGPROF, &action, NULL);
  setitimer(ITIMER_PROF, &every, NULL);
}

/* As hosts do: the timer off, the handler left in its place. */
static void host_stop(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, NULL);
}

/*
 * How many ticks the host's timer yields is the kernel's affair: it counts no overruns, and on a busy machine half of them
 * are lost without us. What can be said exactly: while both run, the host's handler is called once for each signal that we
 * forward. Where it comes after us, it also gets what reaches it directly until we are back on top.
 */
typedef struct window_sums {
  double ours_cpu; /* seconds burnt while we ran */
  int both, alone; /* calls of the host's handler */
} window_sums;

static void window(window_sums *sums, bool ours_runs, bool host_runs) {
  int calls_before = calls;
  double cpu = thread_cpu();
  burn(0.7);
  if (ours_runs) sums->ours_cpu += thread_cpu() - cpu;
  if (host_runs) *(ours_runs ? &sums->both : &sums->alone) += calls - calls_before;
}

static void order(const char *steps) {
  char name[100];
  onstack_session *session = NULL;
  onstack_stats stats = {.size = sizeof(stats)};
  window_sums sums = {0, 0, 0};
  bool ours_runs = false, host_runs = false;
  for (const char *step = steps; *step; step++) {
    if (*step == 'O') session = start(500, ONSTACK_DEFAULT), ours_runs = true;
    if (*step == 'o') stats = finish(session, steps), ours_runs = false;
    if (*step == 'H') host_start(), host_runs = true;
    if (*step == 'h') host_stop(), host_runs = false;
    if (*step == 'b') window(&sums, ours_runs, host_runs);
  }
  int direct = sums.both - (int)stats.forwarded, allowed = strchr(steps, 'O') < strchr(steps, 'H') ? 40 : 2;
  double share = share_of(&stats, sums.ours_cpu);
  snprintf(name, sizeof(name), "itimer %s", steps);
  check(share > 0.9 && share < 1.1 && direct >= -2 && direct <= allowed && sums.both + sums.alone > 5, name,
        "ours %.3f of the CPU time; the host got %d alone, %d beside us, %lu forwarded", share, sums.alone, sums.both,
        (unsigned long)stats.forwarded);
}

int main(void) {
  static const char *const orders[] = {"HbOboh", "HbObhbo", "ObHbobh", "ObHbhbo", "HbhObo", "OboHbh"};
  for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
    signal(SIGPROF, SIG_DFL);
    order(orders[i]);
  }
  return check_status();
}
