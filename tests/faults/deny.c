/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Worlds in which something is missing for good: a seccomp filter that refuses one of the system calls that a session
 * makes (EPERM, as container runtimes do, and ENOSYS, as old kernels do), limits, no /proc, no files. In each a session
 * works by other means or its start gives a named error; a session that says it runs and has no tick is a failure.
 * A filter may come while a session runs too (midway): it goes on, and its end is as clean as the filter lets it be.
 *
 * Usage: deny [NAME ...]     NAME: of a call or of a world
 */
#include "calls.h"
#include "filter.h"
#include "checker.h"
#include "onstack/onstack.h"
#include "worlds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static char **deny_only;
static unsigned deny_failed, deny_cases;

static bool deny_may_be_silent; /* no tick comes where the ticker's own means are refused: not a failure of this one */

static bool deny_wants(const char *name) {
  if (!*deny_only) return true;
  for (char **only = deny_only; *only; only++)
    if (strcmp(*only, name) == 0) return true;
  return false;
}

static const uint8_t deny_clocks[] = {ONSTACK_CLOCK_WALL_SIGNAL, ONSTACK_CLOCK_WALL};

static const char *deny_where(const plan *plan) {
  if (plan->heap) return "heap";
  return plan->ticks_by == ONSTACK_CLOCK_WALL ? "wall" : plan->ticks_by ? "wall-signal" : "cpu";
}

static void deny_check(plan *plan, const char *name, const char *how, int expected) {
  checker_run(plan);
  deny_cases++;
  if (plan->skipped[0]) {
    printf("skip %s, %s: %s\n", name, how, plan->skipped);
    return;
  }
  if (!plan->complaint[0] && plan->result == 0 && plan->ticks == plan->at_filter && !deny_may_be_silent)
    snprintf(plan->complaint, sizeof(plan->complaint), "a session that started has no tick%s",
             plan->midway ? " after the filter" : "");
  if (!plan->complaint[0] && plan->result != 0 && plan->result != expected && expected != WORLD_MAY_REFUSE)
    snprintf(plan->complaint, sizeof(plan->complaint), "start returns %d", plan->result);
  deny_failed += plan->complaint[0] != 0;
  if (plan->complaint[0])
    printf("%-20s %-14s FAILED, %s: %s\n", name, how, deny_where(plan), plan->complaint);
  else if (plan->result == 0)
    printf("%-20s %-14s works: clock %s, reader %s, %u ticks\n", name, how, plan->clock, plan->reader,
           (unsigned)plan->ticks);
  else
    printf("%-20s %-14s start returns %d: %s\n", name, how, plan->result,
           plan->result > -4096 ? strerror(-plan->result) : onstack_strerror(plan->result));
  fflush(stdout);
}

static void deny_one(plan *plan, int number, const char *name) {
  plan->call = number;
  plan->denied = true;
  plan->error = EPERM;
  deny_check(plan, name, plan->midway ? "EPERM, midway" : "EPERM", WORLD_MAY_REFUSE);
  plan->error = ENOSYS;
  deny_check(plan, name, plan->midway ? "ENOSYS, midway" : "ENOSYS", WORLD_MAY_REFUSE);
  plan->denied = false;
}

static void deny_calls(plan *plan) {
  static uint64_t calls[PLAN_MAX_CALL];
  plan->call = PLAN_EVERY_CALL;
  checker_run(plan);
  if (plan->skipped[0]) printf("skip the calls: %s\n", plan->skipped);
  memcpy(calls, (const void *)plan->calls, sizeof(calls));
  for (int number = 0; number < PLAN_MAX_CALL; number++) {
    const call_kind *kind = call_find(number);
    if (calls[number] == 0 || !deny_wants(kind->name)) continue;
    if (kind->exempt || kind->needed) {
      printf("%-20s not refused: %s\n", kind->name, kind->exempt ? kind->exempt : kind->needed);
      continue;
    }
    deny_one(plan, number, kind->name);
    if (plan->ticks_by) continue; /* deny_changes has what differs */
    plan->midway = true;
    deny_one(plan, number, kind->name);
    plan->midway = false;
  }
}

/* What takes over is refused as well. */
static void deny_together(plan *plan, const char *name, int first, int second, int third, int expected) {
  if (!deny_wants(name)) return;
  plan->call = first;
  plan->also[0] = second;
  plan->also[1] = third;
  plan->denied = true;
  plan->error = EPERM;
  deny_check(plan, name, "EPERM", expected);
  plan->denied = false;
  plan->also[0] = plan->also[1] = 0;
}

static void deny_several(plan *plan) {
  deny_together(plan, "no timers, no queue", SYS_timer_create, SYS_rt_tgsigqueueinfo, 0, ONSTACK_E_CLOCK);
  deny_together(plan, "no ticks set", SYS_timer_settime, SYS_rt_tgsigqueueinfo, 0, ONSTACK_E_CLOCK);
  deny_together(plan, "no reader at all", SYS_rt_sigprocmask, SYS_process_vm_readv, 0, WORLD_WORKS);
  deny_together(plan, "no timers, no list", SYS_timer_create, SYS_getdents64, 0, -EPERM);
}

/* ---- a filter that comes while a session runs ---- */

static void deny_for_good(plan *plan, int call) {
  int result = filter_deny(call, EPERM);
  if (result < 0) snprintf(plan->skipped, sizeof(plan->skipped), "no seccomp filter: %s", strerror(-result));
}
static void deny_timers(plan *plan) { deny_for_good(plan, SYS_timer_create); }
static void deny_probe(plan *plan) { deny_for_good(plan, SYS_rt_sigprocmask); }

typedef struct deny_change {
  const char *name;
  void (*before)(plan *); /* what is refused before the session: who takes over loses its calls later */
  int call, also[2];
  bool silent; /* ticks may end there, and nothing says how many: open */
} deny_change;

static const deny_change deny_changes[] = {
    {"timers go on", NULL, SYS_timer_delete, {SYS_timer_settime, 0}, false},
    {"all of it stays", NULL, SYS_timer_delete, {SYS_timer_settime, SYS_rt_sigaction}, false},
    {"no memory is read", NULL, SYS_rt_sigprocmask, {SYS_process_vm_readv, 0}, false},
    {"an allow list", NULL, PLAN_MOST_CALLS, {0, 0}, false},
    {"copy: no more", deny_probe, SYS_process_vm_readv, {0, 0}, false},
    {"ticker: no signals", deny_timers, SYS_rt_tgsigqueueinfo, {0, 0}, true},
    {"ticker: no list", deny_timers, SYS_getdents64, {SYS_openat, 0}, false},
    {"ticker: no clocks", deny_timers, SYS_clock_gettime, {SYS_clock_nanosleep, 0}, true},
    {"ticker: allow list", deny_timers, PLAN_MOST_CALLS, {0, 0}, true},
};

static void deny_midway(plan *plan) {
  plan->midway = true;
  for (size_t i = 0; i < sizeof(deny_changes) / sizeof(deny_changes[0]); i++) {
    const deny_change *change = &deny_changes[i];
    if (!deny_wants(change->name)) continue;
    deny_may_be_silent = change->silent;
    plan->limits = change->before;
    memcpy(plan->also, change->also, sizeof(plan->also));
    const int ways = change->before == deny_timers ? 1 : 2; /* the ticker is a thread: it cannot be polled */
    for (int polled = 0; polled < ways; polled++) {
      plan->polled = polled;
      deny_one(plan, change->call, change->name);
    }
  }
  deny_may_be_silent = false;
  plan->limits = NULL;
  plan->also[0] = plan->also[1] = 0;
  plan->midway = plan->polled = false;
}

static void deny_worlds(plan *plan) {
  size_t count;
  const world *all = worlds_all(&count);
  plan->call = PLAN_NO_CALL;
  for (size_t i = 0; i < count; i++) {
    if (!deny_wants(all[i].name)) continue;
    plan->world = all[i].before;
    plan->limits = all[i].after;
    plan->polled = false;
    deny_check(plan, all[i].name, deny_where(plan), plan->ticks_by || plan->heap ? WORLD_MAY_REFUSE : all[i].expected);
  }
  plan->world = plan->limits = NULL;
  plan->polled = false;
}

int main(int argc, char **argv) {
  plan *plan = checker_plan();
  (void)argc;
  if (!plan) return 2;
  deny_only = argv + 1;
  deny_worlds(plan);
  deny_several(plan);
  deny_calls(plan);
  deny_midway(plan);
  for (size_t i = 0; i < sizeof(deny_clocks) / sizeof(deny_clocks[0]); i++) {
    plan->ticks_by = deny_clocks[i];
    deny_worlds(plan);
    deny_calls(plan);
    deny_midway(plan);
  }
  plan->ticks_by = 0;
  plan->heap = true;
  deny_worlds(plan);
  deny_calls(plan);
  printf("%u cases, %u failed\n", deny_cases, deny_failed);
  return deny_failed != 0;
}
