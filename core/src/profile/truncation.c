/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/truncation.h"

#include "onstack/onstack.h"

const char *onstack_profile_truncation_frame(uint32_t truncation) {
  switch (truncation) {
  case ONSTACK_TRUNCATED_NOT:
    return NULL;
  case ONSTACK_TRUNCATED_BY_DESIGN:
    return NULL;
  case ONSTACK_TRUNCATED_DEPTH:
    return "[truncated: deeper than the maximal depth]";
  case ONSTACK_TRUNCATED_UNREADABLE:
    return "[truncated: unreadable stack memory]";
  case ONSTACK_TRUNCATED_MISALIGNED:
    return "[truncated: misaligned frame pointer]";
  case ONSTACK_TRUNCATED_NOT_RISING:
    return "[truncated: frame pointer does not rise]";
  case ONSTACK_TRUNCATED_BAD_RETURN:
    return "[truncated: no return address]";
  case ONSTACK_TRUNCATED_STACK_SWITCH:
    return "[truncated: switch of stacks]";
  case ONSTACK_TRUNCATED_NO_RULE:
    return "[truncated: no unwind information]";
  case ONSTACK_TRUNCATED_PENDING:
    return "[truncated: unwind information not read yet]";
  case ONSTACK_TRUNCATED_UNWINDER:
    return "[truncated: by the unwinder]";
  default:
    return "[truncated: unknown reason]";
  }
}
