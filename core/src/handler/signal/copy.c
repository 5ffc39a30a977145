/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/signal/copy.h"

#include "handler/tick/entry.h"

ONSTACK_INTERNAL_DEFINE onstack_copy onstack_copy_self = {
    .bytes = sizeof(onstack_copy),
    .action_bytes = sizeof(onstack_action),
    .actions = onstack_actions,
    .take = onstack_handler_take,
    .trampoline = onstack_handler_trampoline,
};
