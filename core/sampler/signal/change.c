/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/change.h"

#include "sampler/signal/copy.h"
#include "sampler/signal/nesting.h"
#include "sampler/signal/own_threads.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

onstack_below onstack_below_add(const onstack_below *below, onstack_previous *newest) {
  onstack_below all = {{newest, NULL, NULL}};
  uint32_t count = 1;
  for (uint32_t i = 0; i < ONSTACK_ACTION_LEVELS && count < ONSTACK_ACTION_LEVELS && below->levels[i]; i++)
    if (below->levels[i]->action.handler != newest->action.handler) all.levels[count++] = below->levels[i];
  return all;
}

/* The lower levels first, so that a handler between the stores passes a signal to one of them twice at worst, and never
   nowhere. */
void onstack_trampoline_publish(onstack_action *action, uint32_t trampoline, const onstack_below *below) {
  onstack_below *to = &action->below[trampoline];
  for (uint32_t i = ONSTACK_ACTION_LEVELS; i-- > 0;) onstack_publish(&to->levels[i], below->levels[i]);
}

/* By the actions: another copy has them in a table of its own. */
static bool below_is_same(const onstack_below *a, const onstack_below *b) {
  for (uint32_t i = 0; i < ONSTACK_ACTION_LEVELS; i++) {
    const onstack_previous *one = a->levels[i], *other = b->levels[i];
    if (one == other) continue;
    if (!one || !other || memcmp(&one->action, &other->action, sizeof(one->action)) != 0) return false;
  }
  return true;
}

static bool trampoline_is_held(const onstack_action *action, uint32_t trampoline) { return action->held >> trampoline & 1u; }

/*
 * Owners come and go above each other, so few are held at a time; those that are not go first. With more than sixteen, an
 * owner that has been below all others for long is taken, when it leaves, for the one whose trampoline it has by now.
 */
static uint32_t trampoline_choose(onstack_action *action, const onstack_below *below, uint32_t except) {
  uint32_t best = except == 0;
  for (uint32_t i = 0; i < ONSTACK_TRAMPOLINES; i++) {
    if (i == except) continue;
    if (action->sequences[i] != 0 && below_is_same(&action->below[i], below)) return i;
    const bool held = trampoline_is_held(action, i), best_is_held = trampoline_is_held(action, best);
    if (held != best_is_held ? best_is_held : action->sequences[i] < action->sequences[best]) best = i;
  }
  onstack_trampoline_publish(action, best, below);
  return best;
}

uint32_t onstack_trampoline_choose(onstack_action *action, const onstack_below *below) {
  return trampoline_choose(action, below, ONSTACK_TRAMPOLINES);
}

uint32_t onstack_trampoline_another(onstack_action *action, uint32_t trampoline) {
  const onstack_below below = action->below[trampoline];
  return trampoline_choose(action, &below, trampoline);
}

void onstack_trampoline_use(onstack_action *action, uint32_t trampoline) {
  action->current = trampoline;
  action->sequences[trampoline] = ++action->sequence;
  action->held |= 1u << trampoline;
}

void onstack_trampoline_put_back(onstack_action *action, uint32_t trampoline) {
  for (uint32_t i = 0; i < ONSTACK_TRAMPOLINES; i++)
    if (action->sequences[i] > action->sequences[trampoline]) action->held &= ~(1u << i);
}

void onstack_trampolines_forget(onstack_action *action, const onstack_below *unowned) {
  for (uint32_t i = 0; i < ONSTACK_TRAMPOLINES; i++)
    if (action->sequences[i] != 0) onstack_trampoline_publish(action, i, unowned);
}

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

/*
 * An action as libc makes it, for what it adds: the restorer and its flag. Ours has them too, because debuggers and
 * unwinders know libc's restorer. Taken from the first handler that is installed. libc's sigaction alone will not do: it
 * leaves its own signals out of every mask (asynchronous cancellation would then unwind a thread out of our handler, with
 * its ring entry claimed for ever), and who interposes it, a preload or a sanitizer, may install something else.
 */
static struct onstack_kernel_sigaction install_model;
static bool install_has_model;

static const uint64_t install_flags =
    (uint64_t)(uint32_t)(SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND | SA_NOCLDSTOP | SA_NOCLDWAIT);

static struct onstack_kernel_sigaction install_make(uint64_t handler, uint64_t flags, onstack_kernel_sigset mask) {
  struct onstack_kernel_sigaction made = install_model;
  made.handler = handler;
  made.flags = flags | (install_model.flags & ~install_flags);
  made.mask = mask & ~(ONSTACK_SIGBIT(SIGKILL) | ONSTACK_SIGBIT(SIGSTOP)); /* as the kernel keeps it */
  return made;
}

static int install_first(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                         struct onstack_kernel_sigaction *was) {
  struct sigaction first = {.sa_flags = flags}, old;
  first.sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)handler;
  sigfillset(&first.sa_mask);
  if (sigaction(signal, &first, &old) != 0) return -errno;
  int result = onstack_sys_sigaction(signal, NULL, &install_model);
  if (result < 0) return result;
  install_has_model = true;
  *was = *now;
  /* libc hides the restorer of what was there; who came between had libc's, or needs none. */
  if ((uint64_t)(uintptr_t)old.sa_sigaction != now->handler)
    *was = install_make((uint64_t)(uintptr_t)old.sa_sigaction, (uint64_t)(uint32_t)old.sa_flags,
                        *(const onstack_kernel_sigset *)(const void *)&old.sa_mask);
  return 0;
}

int onstack_install(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                    struct onstack_kernel_sigaction *installed, struct onstack_kernel_sigaction *was) {
  struct onstack_kernel_sigaction between;
  const bool first = !install_has_model;
  int result = first ? install_first(signal, handler, flags, now, was) : 0;
  if (result < 0) return result;
  const onstack_kernel_sigset open = flags & SA_NODEFER ? ONSTACK_SIGBIT(signal) : 0;
  *installed = install_make(handler, (uint64_t)(uint32_t)flags, ~open);
  /* To where it is wanted, not by way of a variable: handlers read it there already. */
  result = onstack_sys_sigaction(signal, installed, first ? &between : was);
  if (result == 0 && first && between.handler != handler) *was = between;
  return result;
}

/* ---- back on top, when somebody came or left ---- */

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
