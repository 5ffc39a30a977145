/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/on_top.h"

#include "sampler/signal/change.h"
#include "sampler/signal/nesting.h"
#include "sampler/signal/registry.h"
#include "sampler/signal/own_threads.h"

#include <errno.h>
#include <signal.h>

ONSTACK_INTERNAL_DEFINE onstack_action_owner onstack_action_owners[ONSTACK_SIGNALS];

/*
 * Previous actions are kept for ever, because a handler may be reading one; equal ones share an entry, so only programs
 * that install ever new handler functions could fill the table. Then a newer owner is left where it is.
 */
#define ON_TOP_PREVIOUS 128u
static onstack_previous on_top_previous[ON_TOP_PREVIOUS];
static uint32_t on_top_previous_count;

/* Two handlers that both insist on being on top would go on for ever: after so many returns we stay below. */
#define ON_TOP_RETURNS 8u

int onstack_action_meet(const struct onstack_kernel_sigaction *now, onstack_copy **copy) {
  *copy = NULL;
  return onstack_action_is_ours(now) ? 0 : onstack_copies_meet(now->handler, copy);
}

onstack_previous *onstack_action_keep(const struct onstack_kernel_sigaction *action) {
  onstack_previous *kept = NULL;
  for (uint32_t i = 0; i < on_top_previous_count && !kept; i++)
    if (onstack_action_is_same(&on_top_previous[i].action, action)) kept = &on_top_previous[i];
  if (!kept && on_top_previous_count < ON_TOP_PREVIOUS) {
    kept = &on_top_previous[on_top_previous_count++];
    kept->action = *action;
  }
  if (kept) onstack_store_relaxed(&kept->spent, 0u);
  return kept;
}

void onstack_action_check_dispute(int signal, onstack_action *action, uint32_t trampoline) {
  const struct onstack_kernel_sigaction *below = &action->below[trampoline].levels[0]->action;
  const bool unowned = onstack_action_is_unowned(below) || below->handler == onstack_own_stands_in.handler;
  const bool undisputed = unowned && !action->visited;
  onstack_dekker_store(&action->undisputed, (uint32_t)undisputed);
  /* Nor on one of a copy that stands below, whose own look does not come this far. */
  for (uint32_t i = 0; !undisputed && onstack_copy_other(&onstack_copy_self, i); i++)
    onstack_dekker_store(&onstack_copy_action(onstack_copy_other(&onstack_copy_self, i), signal)->undisputed, 0u);
}

bool onstack_action_restarts(const struct onstack_kernel_sigaction *below) {
  if (below->handler == onstack_own_stands_in.handler) return !onstack_dekker_load(&onstack_own_stands_in.interrupts);
  return onstack_action_is_unowned(below) || below->flags & (uint64_t)SA_RESTART;
}

void onstack_action_set_restart(struct onstack_kernel_sigaction *action, bool restarts) {
  action->flags = restarts ? action->flags | (uint64_t)SA_RESTART : action->flags & ~(uint64_t)SA_RESTART;
}

/* A start asks before its session is counted. */
static bool on_top_may_be_open(int signal, const onstack_action_owner *owner) {
  return owner->on_stack && onstack_nesting_fits(signal, owner->sessions > 0 ? owner->sessions : 1);
}

/* Installs ours by that trampoline, what lies below which is published already. *was: what was there. */
static int on_top_install(int signal, const onstack_action_owner *owner, uint32_t trampoline,
                          const struct onstack_kernel_sigaction *now, struct onstack_kernel_sigaction *was) {
  onstack_action *action = &onstack_actions[signal];
  const struct onstack_kernel_sigaction *below = &action->below[trampoline].levels[0]->action;
  struct onstack_kernel_sigaction ours;
  int flags = SA_SIGINFO | (owner->on_stack ? SA_ONSTACK : 0);
  if (onstack_action_restarts(below)) flags |= SA_RESTART;
  if (on_top_may_be_open(signal, owner)) {
    flags |= SA_NODEFER;
    onstack_nesting_open();
  }
  struct onstack_kernel_sigaction *replaced = onstack_change_begin(action, trampoline, now);
  int result =
      onstack_install(signal, onstack_trampoline_address(&onstack_copy_self, trampoline), flags, now, &ours, replaced);
  if (result < 0) return result;
  *was = *replaced;
  onstack_trampoline_use(action, trampoline);
  action->ours = ours;
  onstack_action_check_dispute(signal, action, trampoline);
  onstack_dekker_store(&action->running, 1u);
  return 0;
}

/* What lies below another copy lies below us: it is never its handler that we pass signals on to. */
static uint32_t on_top_below_copy(int signal, const onstack_copy *copy, uint64_t handler) {
  const onstack_action *theirs = onstack_copy_action(copy, signal);
  const onstack_below below = theirs->below[onstack_trampoline_at(copy, handler)];
  if (theirs->visited) onstack_actions[signal].visited = 1;
  return onstack_trampoline_choose(&onstack_actions[signal], &below);
}

uint32_t onstack_action_put_back(int signal, const struct onstack_kernel_sigaction *now, const onstack_copy *copy) {
  const uint32_t trampoline = onstack_trampoline_at(&onstack_copy_self, now->handler);
  onstack_actions[signal].visited = 1;
  if (copy) return on_top_below_copy(signal, copy, now->handler);
  onstack_trampoline_put_back(&onstack_actions[signal], trampoline);
  return trampoline;
}

/* A newcomer, no copy, stands where ours was; the trampoline for going back on top of it, or ONSTACK_TRAMPOLINES. */
static uint32_t on_top_go_over(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *now) {
  onstack_action *action = &onstack_actions[signal];
  onstack_previous *newcomer = owner->returns < ON_TOP_RETURNS ? onstack_action_keep(now) : NULL;
  if (!newcomer) return ONSTACK_TRAMPOLINES;
  owner->returns++;
  onstack_below below = {{newcomer, NULL, NULL}};
  if (onstack_action_is_unowned(now)) {
    onstack_trampolines_forget(action, &below);
  } else {
    below = onstack_below_add(&action->below[action->current], newcomer);
    action->visited = 1;
  }
  return onstack_trampoline_choose(action, &below);
}

uint32_t onstack_action_trampoline_for(int signal, onstack_action_owner *owner, const struct onstack_kernel_sigaction *now,
                                       const onstack_copy *copy) {
  return onstack_action_is_ours(now) || copy ? onstack_action_put_back(signal, now, copy)
                                             : on_top_go_over(signal, owner, now);
}

uint32_t onstack_action_trampoline_for_late(int signal, onstack_action_owner *owner,
                                            const struct onstack_kernel_sigaction *was, int *result) {
  onstack_copy *copy;
  *result = onstack_action_meet(was, &copy);
  return *result < 0 ? ONSTACK_TRAMPOLINES : onstack_action_trampoline_for(signal, owner, was, copy);
}

/*
 * On top of `now`, by that trampoline; then of whoever came at that very moment, unless it is one that we stay below.
 * Ours may be an owner's previous action by then: it stands for what lies below the next one, too.
 */
static int on_top_reinstall(int signal, onstack_action_owner *owner, uint32_t trampoline,
                            struct onstack_kernel_sigaction now) {
  onstack_action *action = &onstack_actions[signal];
  for (;;) {
    struct onstack_kernel_sigaction was;
    if (onstack_trampoline_at(&onstack_copy_self, now.handler) == trampoline)
      trampoline = onstack_trampoline_another(action, trampoline);
    int result = on_top_install(signal, owner, trampoline, &now, &was);
    if (result < 0 || onstack_action_is_same(&was, &now)) return result;
    trampoline = onstack_action_trampoline_for_late(signal, owner, &was, &result);
    if (trampoline == action->current) return 0;
    if (trampoline >= ONSTACK_TRAMPOLINES) return onstack_change_exchange(signal, &was, &action->ours), result;
    onstack_trampoline_publish(action, action->current, &action->below[trampoline]);
    now = action->ours;
  }
}

int onstack_action_reinstall(int signal, onstack_action_owner *owner, uint32_t trampoline,
                             struct onstack_kernel_sigaction now) {
  int result = on_top_reinstall(signal, owner, trampoline, now);
  onstack_change_end(&onstack_actions[signal]);
  return result;
}

bool onstack_action_is_outdated(int signal, const onstack_action_owner *owner) {
  const uint64_t flags = onstack_actions[signal].ours.flags;
  return (owner->on_stack && !(flags & (uint64_t)SA_ONSTACK)) ||
         on_top_may_be_open(signal, owner) != ((flags & (uint64_t)SA_NODEFER) != 0);
}
