/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/change.h"

#include <string.h>
#include <errno.h>
#include <signal.h>

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
