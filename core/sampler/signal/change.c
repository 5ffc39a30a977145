/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/change.h"

/* Who was put back may have left again meanwhile, or another one may have come: so until what a change of ours replaced is
   what we had put there last. */
void onstack_change_exchange(int signal, const struct onstack_kernel_sigaction *to,
                             const struct onstack_kernel_sigaction *now) {
  struct onstack_kernel_sigaction put = *to, expected = *now, was;
  while (onstack_sys_sigaction(signal, &put, &was) == 0 && !onstack_action_is_same(&was, &expected)) {
    expected = put;
    put = was;
  }
}

/* Under the lock of all copies. The count tells a handler that what it has read belongs to a change that is over. */
static void change_set_changing(onstack_action *action, uint32_t changing) {
  const uint32_t count = (onstack_load_relaxed(&action->changing) & ~0xffu) + 0x100u;
  onstack_publish(&action->changing, count | changing); /* pairs with action_replaced */
}

void onstack_change_end(onstack_action *action) {
  const uint32_t trampoline = onstack_action_changes(onstack_load_relaxed(&action->changing));
  if (trampoline >= ONSTACK_TRAMPOLINES) return;
  onstack_previous *replaced = &action->replaced[trampoline], *newest = action->below[trampoline].levels[0];
  const bool spent = onstack_exchange(&replaced->spent, 1u) != 0;
  if (spent && onstack_action_is_same(&newest->action, &replaced->action)) onstack_store_relaxed(&newest->spent, 1u);
  change_set_changing(action, 0);
}

struct onstack_kernel_sigaction *onstack_change_begin(onstack_action *action, uint32_t trampoline,
                                                      const struct onstack_kernel_sigaction *now) {
  onstack_change_end(action);
  onstack_fence_publish();
  onstack_store_relaxed(&action->expected, now->handler);
  action->replaced[trampoline] = (onstack_previous){*now, 0};
  change_set_changing(action, trampoline + 1);
  return &action->replaced[trampoline].action;
}
