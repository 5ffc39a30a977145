/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The n-th failure of each system call and of each allocation that a session makes, from its start to its free: n = 1, 2,
 * ... until none is left, each once and as the first of a lasting failure. Which calls there are is learnt from a run.
 *
 * Usage: nth [all] [CALL ...]    all: every n; else those up to 6, and then 12, 24, ...
 */
#include "calls.h"
#include "checker.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define NTH_EACH 6u        /* of the calls that come first, all */
#define NTH_MOST 4096u     /* far above the calls that a session makes: who comes so far has no end, and that is a failure */
#define NTH_MOST_AGAIN 12u /* unless all are wanted: ten sessions each take their time */
#define NTH_ROUNDS (ONSTACK_MAX_SESSIONS + 2)

static bool nth_all;
static const char *const *nth_only; /* names; none: every one */
static const char *nth_where = "";  /* what else is missing */
static unsigned nth_failed, nth_cases;

static bool nth_wants(const char *name) {
  if (!*nth_only) return true;
  for (const char *const *only = nth_only; *only; only++)
    if (strcmp(*only, name) == 0) return true;
  return false;
}

static uint64_t nth_next(uint64_t n) { return nth_all || n < NTH_EACH ? n + 1 : 2 * n; }

static void nth_report(const plan *plan, const char *name) {
  nth_failed++;
  printf("FAILED: %s, failure %llu%s (%s)%s%s: %s\n", name, (unsigned long long)plan->nth,
         plan->persistent ? " and all later ones" : "", strerror(plan->error), nth_where,
         plan->owner ? ", over a handler" : "", plan->complaint);
}

/* A lost timer is found again by the process tick, a lost reader has another behind it: one failure ends no session. */
static void nth_check_silence(plan *plan) {
  if (plan->complaint[0] || plan->persistent || plan->result < 0 || plan->ticks > 0) return;
  snprintf(plan->complaint, sizeof(plan->complaint), "a session that started has no tick");
}

/* False when fewer than n calls were made: there is nothing left to fail. */
static bool nth_one(plan *plan, const char *name, uint64_t n, bool persistent) {
  plan->nth = n;
  plan->persistent = persistent;
  plan->owner = n % 2 == 0;
  checker_run(plan);
  nth_check_silence(plan);
  nth_cases++;
  if (plan->complaint[0]) nth_report(plan, name);
  return plan->injected > 0 || plan->complaint[0];
}

static void nth_too_many(const char *name) {
  nth_failed++;
  printf("FAILED: %s%s: %u calls and more, not all of them tried\n", name, nth_where, NTH_MOST);
}

static uint64_t nth_every(plan *plan, const char *name) {
  uint64_t n = 1;
  unsigned errors = 0, before = nth_failed;
  for (; n <= NTH_MOST && nth_failed - before < 8; n = nth_next(n)) {
    bool left = nth_one(plan, name, n, false);
    errors += plan->result < 0;
    if (!left) break;
    nth_one(plan, name, n, true);
    errors += plan->result < 0;
  }
  if (n > NTH_MOST) nth_too_many(name);
  printf("%-18s up to %4llu, %3u starts refused%s\n", name, (unsigned long long)n - 1, errors, nth_where);
  fflush(stdout);
  return n;
}

static void nth_calls(plan *plan) {
  static uint64_t calls[PLAN_MAX_CALL];
  plan->call = PLAN_EVERY_CALL;
  plan->nth = 0;
  if (checker_run(plan)) nth_report(plan, "no failure");
  memcpy(calls, (const void *)plan->calls, sizeof(calls));
  for (int number = 0; number < PLAN_MAX_CALL && !plan->skipped[0]; number++) {
    const call_kind *kind = call_find(number);
    if (calls[number] == 0 || !nth_wants(kind->name)) continue;
    if (kind->exempt) {
      printf("%-18s not made to fail: %s\n", kind->name, kind->exempt);
      continue;
    }
    plan->call = number;
    plan->error = kind->error;
    nth_every(plan, kind->name);
  }
}

static void nth_allocations(plan *plan) {
  plan->allocations = true;
  plan->call = PLAN_NO_CALL;
  plan->error = ENOMEM;
  if (nth_wants("allocations") && nth_every(plan, "allocations") < 10) {
    printf("FAILED: no allocation is seen\n");
    nth_failed++;
  }
  plan->allocations = false;
}

/* Readers and clocks that stand behind the first ones: of their calls only those that the first ones do not make. */
static void nth_behind(plan *plan) {
  static const char *const ticker[] = {"rt_tgsigqueueinfo", "clone3", "getdents64", "mmap", "timer_create", NULL};
  static const char *const signals[] = {"timer_create", "timer_settime", "timer_delete", "getdents64", "openat", NULL};
  static const char *const looks[] = {"openat",       "read",          "pread64", "process_vm_readv",
                                      "timer_create", "clone3",        "mmap",    "madvise",
                                      "readlinkat",   "clock_gettime", NULL};
  static const char *const heap[] = {"mmap",  "madvise", "rt_sigprocmask", "prctl",       "process_vm_readv",
                                     "futex", "clone3",  "openat",         "allocations", NULL};
  const char *const *only = nth_only;
  nth_where = " (ticker)";
  nth_only = *only ? only : ticker;
  plan->also[0] = SYS_timer_settime;
  plan->also[1] = 0;
  nth_calls(plan);
  nth_where = " (wall-signal)";
  nth_only = *only || nth_all ? only : signals;
  plan->also[0] = 0;
  plan->ticks_by = ONSTACK_CLOCK_WALL_SIGNAL;
  nth_calls(plan);
  nth_where = " (wall)";
  nth_only = *only || nth_all ? only : looks;
  plan->ticks_by = ONSTACK_CLOCK_WALL;
  nth_calls(plan);
  nth_where = " (heap)";
  nth_only = *only || nth_all ? only : heap;
  plan->ticks_by = 0;
  plan->heap = true;
  nth_allocations(plan);
  nth_calls(plan);
  plan->heap = false;
}

static void nth_again_every(plan *plan, const char *name) {
  const uint64_t most = nth_all ? NTH_MOST : NTH_MOST_AGAIN;
  for (plan->nth = 1; plan->nth <= most; plan->nth = nth_next(plan->nth)) {
    nth_cases++;
    if (checker_run(plan)) nth_report(plan, name);
    if (plan->injected == 0) return;
  }
  if (nth_all)
    nth_too_many(name);
  else
    printf("%-18s tried to failure %llu, and there are more%s\n", name, (unsigned long long)most, nth_where);
}

/* The same failure again and again: a slot or an allocation that each leaves behind adds up. */
static void nth_again(plan *plan) {
  static const int calls[] = {PLAN_NO_CALL, SYS_mmap, SYS_clone3, SYS_timer_settime, SYS_rt_sigaction, SYS_openat};
  nth_where = " (ten times)";
  plan->rounds = NTH_ROUNDS;
  plan->ticks_by = 0;
  plan->persistent = plan->owner = false;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    const char *name = calls[i] == PLAN_NO_CALL ? "allocations" : call_find(calls[i])->name;
    plan->call = calls[i];
    plan->error = calls[i] == PLAN_NO_CALL ? ENOMEM : call_find(calls[i])->error;
    plan->allocations = calls[i] == PLAN_NO_CALL;
    if (nth_wants(name)) nth_again_every(plan, name);
  }
  plan->rounds = 0;
  plan->allocations = false;
}

int main(int argc, char **argv) {
  plan *plan = checker_plan();
  if (!plan) return 2;
  nth_all = argc > 1 && strcmp(argv[1], "all") == 0;
  nth_only = (const char *const *)argv + 1 + nth_all;
  nth_allocations(plan);
  nth_calls(plan);
  if (plan->skipped[0]) {
    printf("skip nth: %s\n", plan->skipped);
    return 77;
  }
  nth_again(plan);
  nth_behind(plan);
  printf("%u cases, %u failed\n", nth_cases, nth_failed);
  return nth_failed != 0;
}
