/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a program (host) in which the N-th of a system call or of the allocations fails, with the output that it has, and
 * then says in one line what became of it: "INJECTED SEEN COMPLAINT". 0: it ended with STATUS.
 *
 * Usage: failing CALL N once|always STATUS COMMAND [ARGUMENT ...]     CALL: of calls.c, or "allocations"
 *        failing calls STATUS COMMAND [ARGUMENT ...]                  which calls it makes: "NAME COUNT REASON" lines
 */
#include "calls.h"
#include "checker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failing_list(plan *plan) {
  plan->call = PLAN_EVERY_CALL;
  int result = checker_run(plan);
  for (int number = 0; number < PLAN_MAX_CALL; number++) {
    const call_kind *kind = call_find(number);
    if (plan->calls[number])
      printf("%s\t%llu\t%s\n", kind->name, (unsigned long long)plan->calls[number], kind->exempt ? kind->exempt : "");
  }
  return result;
}

static bool failing_choose(plan *plan, const char *name) {
  plan->allocations = strcmp(name, "allocations") == 0;
  plan->call = PLAN_NO_CALL;
  plan->error = ENOMEM;
  for (int number = 0; number < PLAN_MAX_CALL && !plan->allocations && plan->call == PLAN_NO_CALL; number++) {
    const call_kind *kind = call_find(number);
    if (strcmp(kind->name, name) != 0) continue;
    plan->call = number;
    plan->error = kind->error;
  }
  return plan->allocations || plan->call != PLAN_NO_CALL;
}

static int failing_one(plan *plan) {
  int result = checker_run(plan);
  printf("%llu %llu %s\n", (unsigned long long)plan->injected, (unsigned long long)plan->seen, plan->complaint);
  return result;
}

int main(int argc, char **argv) {
  plan *plan = checker_plan();
  bool list = argc > 3 && strcmp(argv[1], "calls") == 0;
  if (!plan || argc < (list ? 4 : 6) || (!list && !failing_choose(plan, argv[1]))) return 2;
  plan->nth = list ? 0 : strtoull(argv[2], NULL, 10);
  plan->persistent = !list && strcmp(argv[3], "always") == 0;
  plan->status = atoi(argv[list ? 2 : 4]);
  plan->command = argv + (list ? 3 : 5);
  int result = list ? failing_list(plan) : failing_one(plan);
  if (!plan->skipped[0]) return result;
  fprintf(stderr, "skip failing: %s\n", plan->skipped);
  return 77;
}
