/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Worlds in which something is missing for good: a seccomp filter that refuses one of the system calls that a session
 * makes (EPERM, as container runtimes do, and ENOSYS, as old kernels do), limits, no /proc, no files. In each a session
 * works by other means or its start gives a named error; a session that says it runs and has no tick is a failure.
 *
 * Usage: deny [NAME ...]     NAME: of a call or of a world
 */
#include "calls.h"
#include "judge.h"
#include "onstack/onstack.h"
#include "worlds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static char **deny_only;
static unsigned deny_failed, deny_cases;

static bool deny_wants(const char *name) {
  if (!*deny_only) return true;
  for (char **only = deny_only; *only; only++)
    if (strcmp(*only, name) == 0) return true;
  return false;
}

static void deny_judge(plan *plan, const char *name, const char *how, int expected) {
  judge(plan);
  deny_cases++;
  if (plan->skipped[0]) {
    printf("%-20s %-7s SKIPPED: %s\n", name, how, plan->skipped);
    return;
  }
  if (!plan->complaint[0] && plan->result == 0 && plan->ticks == 0)
    snprintf(plan->complaint, sizeof(plan->complaint), "a session that started has no tick");
  if (!plan->complaint[0] && plan->result != 0 && plan->result != expected && expected != WORLD_MAY_REFUSE)
    snprintf(plan->complaint, sizeof(plan->complaint), "start answers %d", plan->result);
  deny_failed += plan->complaint[0] != 0;
  if (plan->complaint[0])
    printf("%-20s %-7s FAILED%s: %s\n", name, how, plan->wall ? ", wall clock" : "", plan->complaint);
  else if (plan->result == 0)
    printf("%-20s %-7s works: clock %s, reader %s, %u ticks\n", name, how, plan->clock, plan->reader, (unsigned)plan->ticks);
  else
    printf("%-20s %-7s start answers %d: %s\n", name, how, plan->result,
           plan->result > -4096 ? strerror(-plan->result) : onstack_strerror(plan->result));
  fflush(stdout);
}

static void deny_calls(plan *plan) {
  static uint64_t calls[PLAN_MAX_CALL];
  plan->call = PLAN_EVERY_CALL;
  judge(plan);
  if (plan->skipped[0]) printf("SKIPPED, the calls: %s\n", plan->skipped);
  memcpy(calls, (const void *)plan->calls, sizeof(calls));
  for (int number = 0; number < PLAN_MAX_CALL; number++) {
    const call_kind *kind = call_find(number);
    if (calls[number] == 0 || !deny_wants(kind->name)) continue;
    if (kind->exempt || kind->needed) {
      printf("%-20s not refused: %s\n", kind->name, kind->exempt ? kind->exempt : kind->needed);
      continue;
    }
    plan->call = number;
    plan->denied = true;
    plan->error = EPERM;
    deny_judge(plan, kind->name, "EPERM", WORLD_MAY_REFUSE);
    plan->error = ENOSYS;
    deny_judge(plan, kind->name, "ENOSYS", WORLD_MAY_REFUSE);
  }
  plan->denied = false;
}

/* What takes over is refused as well. */
static void deny_together(plan *plan, const char *name, int first, int second, int third, int expected) {
  if (!deny_wants(name)) return;
  plan->call = first;
  plan->also[0] = second;
  plan->also[1] = third;
  plan->denied = true;
  plan->error = EPERM;
  deny_judge(plan, name, "EPERM", expected);
  plan->denied = false;
  plan->also[0] = plan->also[1] = 0;
}

static void deny_several(plan *plan) {
  deny_together(plan, "no timers, no queue", SYS_timer_create, SYS_rt_tgsigqueueinfo, 0, ONSTACK_E_CLOCK);
  deny_together(plan, "no ticks set", SYS_timer_settime, SYS_rt_tgsigqueueinfo, 0, ONSTACK_E_CLOCK);
  deny_together(plan, "no probe, no copy", SYS_rt_sigprocmask, SYS_process_vm_readv, 0, WORLD_WORKS);
  deny_together(plan, "no reader at all", SYS_rt_sigprocmask, SYS_process_vm_readv, SYS_pipe2, WORLD_WORKS);
  deny_together(plan, "no timers, no list", SYS_timer_create, SYS_getdents64, 0, -EPERM);
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
    deny_judge(plan, all[i].name, plan->wall ? "wall" : "", plan->wall ? WORLD_MAY_REFUSE : all[i].expected);
  }
  plan->world = plan->limits = NULL;
  plan->polled = false;
}

int main(int argc, char **argv) {
  plan *plan = judge_plan();
  (void)argc;
  if (!plan) return 2;
  deny_only = argv + 1;
  deny_worlds(plan);
  deny_several(plan);
  deny_calls(plan);
  plan->wall = true;
  deny_worlds(plan);
  deny_calls(plan);
  printf("%u cases, %u failed\n", deny_cases, deny_failed);
  return deny_failed != 0;
}
