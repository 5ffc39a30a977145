/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/trampolines.h"

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
