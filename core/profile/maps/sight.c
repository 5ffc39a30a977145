/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/maps/sight.h"

#include "platform/clock_ns.h"

#include <errno.h>
#include <stdlib.h>

/* Objects that come while the text is read: the text may have half of them. */
#define ONSTACK_SIGHT_TRIES 3

static onstack_loader_counts sight_count(void) {
  onstack_loader_counts counts = {0, 0};
  onstack_loader_count(&counts);
  return counts;
}

static onstack_profile_maps *sight_drop(onstack_profile_maps *maps) {
  return maps && onstack_profile_maps_drop(maps) ? maps : NULL;
}

void onstack_profile_sight_close(onstack_profile_sight *sight) {
  onstack_profile_maps *sets[] = {sight_drop(sight->maps), sight_drop(sight->earlier)};
  for (int i = 0; i < 2; i++) {
    if (sets[i]) onstack_profile_maps_free(sets[i]);
  }
  free(sight->loads.numbers);
}

/* Between two stores both pointers name one set, and each would give up its only reference: the earlier set is given up
   with its memory. Nothing is known of when the other was true. */
void onstack_profile_sight_after_fork(onstack_profile_sight *sight) {
  sight->earlier = NULL;
  sight->loads = (onstack_profile_loads){0}; /* its memory may be in any state */
  sight->since_ns = UINT64_MAX;
  sight->until_ns = 0;
}

bool onstack_profile_sight_has_changed(onstack_profile_sight *sight) {
  uint64_t now = onstack_monotonic_ns();
  const onstack_loader_counts loaded = sight_count();
  if (!onstack_loader_same(&loaded, &sight->loaded)) return true;
  if (sight->until_ns != 0) sight->until_ns = now;
  return false;
}

#ifdef __linux__
#define SIGHT_ROOM 64u /* numbers beyond those of the last time */

typedef struct sight_list {
  onstack_profile_loads *loads;
  size_t met; /* objects, of which there may be more than there is room for */
} sight_list;

/* Numbers rise along the loader's list, but for its own. */
static int sight_note_load(const struct dl_phdr_info *info, uint64_t number, void *data) {
  sight_list *list = data;
  onstack_profile_loads *loads = list->loads;
  loads->counted = onstack_loader_counts_in(info);
  if (list->met++ >= loads->room || number == 0) return 0;
  size_t at = loads->count++;
  for (; at > 0 && loads->numbers[at - 1] > number; at--) loads->numbers[at] = loads->numbers[at - 1];
  loads->numbers[at] = number;
  return 0;
}

/* Without memory some are missing: then a set is read that need not be. */
static void sight_note_loads(onstack_profile_loads *loads) {
  for (;;) {
    sight_list list = {loads, 0};
    loads->count = 0;
    if (!onstack_loader_each_load(sight_note_load, &list) || list.met <= loads->room) return;
    uint64_t *numbers = realloc(loads->numbers, (list.met + SIGHT_ROOM) * sizeof(*numbers));
    if (!numbers) return;
    loads->numbers = numbers;
    loads->room = list.met + SIGHT_ROOM;
  }
}
#else
static void sight_note_loads(onstack_profile_loads *loads) { loads->count = 0; }
#endif

void onstack_profile_sight_ask(onstack_profile_sight *sight) {
  const onstack_loader_counts now = sight_count();
  if (sight->loads.room == 0 || !onstack_loader_same(&now, &sight->loads.counted)) sight_note_loads(&sight->loads);
}

static bool sight_has_load(const onstack_profile_loads *loads, uint64_t number) {
  size_t low = 0, high = loads->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (loads->numbers[middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  return number != 0 && low < loads->count && loads->numbers[low] == number;
}

bool onstack_profile_sight_still_holds(const onstack_profile_sight *sight, uint64_t address) {
  const onstack_profile_mapping *mapping = onstack_profile_maps_find(sight->maps, address);
  return mapping && !mapping->retired && sight_has_load(&sight->loads, mapping->load);
}

/* An object that was loaded before the text was read, and afterwards, was there meanwhile: its mappings are its own. */
static void sight_check_loads(const onstack_profile_sight *sight, onstack_profile_maps *maps) {
  for (size_t i = 0; i < maps->count; i++)
    if (!sight_has_load(&sight->loads, maps->items[i].load)) maps->items[i].load = 0;
}

int onstack_profile_sight_open(onstack_profile_sight *sight) {
  *sight = (onstack_profile_sight){.loaded = sight_count(), .since_ns = onstack_monotonic_ns()};
  sight->until_ns = sight->since_ns;
  onstack_profile_sight_ask(sight);
  sight->maps = onstack_profile_maps_read(NULL, false, false);
  if (sight->maps) {
    sight_check_loads(sight, sight->maps);
    return 0;
  }
  free(sight->loads.numbers);
  return -ENOMEM;
}

onstack_profile_maps *onstack_profile_sight_read(onstack_profile_sight *sight, bool keep_retired) {
  onstack_loader_counts before, after = sight_count();
  bool steady = false;
  onstack_profile_maps *now = NULL;
  for (int i = 0; i < ONSTACK_SIGHT_TRIES && !steady; i++) {
    if (now) onstack_profile_maps_free(now);
    before = after;
    onstack_profile_sight_ask(sight);
    now = onstack_profile_maps_read(sight->maps, keep_retired, !onstack_loader_same(&before, &sight->loaded));
    if (!now) return NULL;
    after = sight_count();
    steady = onstack_loader_same(&before, &after);
    sight_check_loads(sight, now);
    if (sight->loads.count > 0) break; /* what stayed is known, and samples elsewhere have another set read */
  }
  const uint64_t read_ns = onstack_monotonic_ns();
  /* Where it never came to rest, the set is true of no time, and the next sample has it read again. */
  onstack_profile_maps *old = sight->earlier;
  sight->earlier = sight->maps;
  sight->earlier_since_ns = sight->since_ns;
  sight->earlier_until_ns = sight->until_ns;
  sight->maps = now;
  sight->loaded = before;
  sight->since_ns = steady ? read_ns : UINT64_MAX;
  sight->until_ns = steady ? read_ns : 0;
  return sight_drop(old);
}

uint64_t onstack_profile_sight_place(const onstack_profile_sight *sight, uint64_t address, uint64_t time_ns) {
  const onstack_profile_maps *maps = sight->maps, *earlier = sight->earlier;
  if (maps->alias_count == 0 && (!earlier || earlier->alias_count == 0)) return address;
  if (address >= ONSTACK_MAPS_ALIAS && address < ONSTACK_MAPS_ALIAS_END) return ONSTACK_MAPS_UNKNOWN; /* nobody's */
  uint64_t now = onstack_profile_maps_place(maps, address);
  if (!earlier || time_ns == 0 || time_ns >= sight->since_ns) return now;
  if (time_ns < sight->earlier_since_ns)
    return onstack_profile_maps_was_replaced(maps, address) ? ONSTACK_MAPS_UNKNOWN : now;
  uint64_t then = onstack_profile_maps_place(earlier, address);
  return now == then || time_ns <= sight->earlier_until_ns ? then : ONSTACK_MAPS_UNKNOWN;
}
