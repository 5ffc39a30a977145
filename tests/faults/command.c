/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "command.h"

#include "filter.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void command_run(plan *plan, int page, int socket) {
  int result = dup2(page, PLAN_FD) == PLAN_FD ? 0 : -1;
  if (result == 0 && plan->call != PLAN_NO_CALL) result = filter_show_over(socket, plan->call);
  if (result < 0) {
    snprintf(plan->skipped, sizeof(plan->skipped), "no seccomp notifications: %s", strerror(-result));
    _exit(0);
  }
  execvp(plan->command[0], plan->command);
  _exit(127);
}
