/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/held.h"

#include "profile/store/hash_index.h"

#include <errno.h>
#include <stdlib.h>

#define HELD_FIRST ((size_t)64)

static size_t held_home(const onstack_profile_held *held, uint64_t object) {
  return onstack_profile_hash_fold(onstack_profile_hash_word(0, object)) & (held->capacity - 1);
}

void onstack_profile_held_add(onstack_profile_held *held, const onstack_profile_held_object *object) {
  size_t at = held_home(held, object->object);
  while (held->places[at].object != 0) at = (at + 1) & (held->capacity - 1);
  held->places[at] = *object;
  held->count++;
}

int onstack_profile_held_reserve(onstack_profile_held *held) {
  if (2 * (held->count + 1) <= held->capacity) return 0;
  onstack_profile_held larger = {.capacity = held->capacity ? 2 * held->capacity : HELD_FIRST};
  larger.places = calloc(larger.capacity, sizeof(*larger.places));
  if (!larger.places) return -ENOMEM;
  for (size_t i = 0; i < held->capacity; i++)
    if (held->places[i].object != 0) onstack_profile_held_add(&larger, &held->places[i]);
  free(held->places);
  *held = larger;
  return 0;
}

/* No mark stays behind: what comes after it in its chain moves up. */
static void held_close(onstack_profile_held *held, size_t hole) {
  const size_t mask = held->capacity - 1;
  for (size_t at = (hole + 1) & mask; held->places[at].object != 0; at = (at + 1) & mask) {
    const size_t home = held_home(held, held->places[at].object);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    held->places[hole] = held->places[at];
    hole = at;
  }
  held->places[hole].object = 0;
}

bool onstack_profile_held_remove(onstack_profile_held *held, uint64_t object, onstack_profile_held_object *out) {
  if (held->capacity == 0 || object == 0) return false;
  size_t at = held_home(held, object);
  while (held->places[at].object != 0 && held->places[at].object != object) at = (at + 1) & (held->capacity - 1);
  if (held->places[at].object == 0) return false;
  *out = held->places[at];
  held_close(held, at);
  held->count--;
  return true;
}

void onstack_profile_held_release(onstack_profile_held *held) {
  free(held->places);
  *held = (onstack_profile_held){0};
}
