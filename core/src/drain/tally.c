/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "drain/tally.h"

#include "handler/unwind/unwinder.h"

#include <stdlib.h>
#include <string.h>

#define TALLY_STEP 32u

static bool tally_grow(onstack_tally *tally, uint32_t number) {
  uint32_t count = (number + TALLY_STEP) & ~(TALLY_STEP - 1);
  onstack_tally_row *rows = realloc(tally->rows, count * sizeof(*rows));
  if (!rows) return false;
  memset(rows + tally->count, 0, (count - tally->count) * sizeof(*rows));
  tally->rows = rows;
  tally->count = count;
  return true;
}

static onstack_tally_row *tally_row(onstack_tally *tally, uint64_t address) {
  uint32_t number = onstack_modules_find(address, &tally->last) == ONSTACK_MODULE_HERE ? tally->last.number : 0;
  if (number >= tally->count && !tally_grow(tally, number)) return tally->rows;
  return &tally->rows[number];
}

void onstack_tally_add(onstack_tally *tally, const onstack_walked *stack) {
  const uint8_t *found = stack->found;
  tally->last.low = tally->last.high = 0; /* it may have been unloaded since */
  for (uint32_t i = 0; i < stack->count; i++) {
    onstack_tally_row *row = tally_row(tally, i == 0 ? stack->frames[0] : stack->frames[i] - 1);
    if (!row) return;
    bool last = i + 1 == stack->count;
    if (last && stack->truncation != ONSTACK_TRUNCATED_NOT)
      row->lost_by[stack->truncation]++;
    else if (last)
      row->by[ONSTACK_BY_NOTHING]++;
    else if (found[i] != ONSTACK_BY_NOTHING && found[i] < ONSTACK_COUNT_OF(row->by))
      row->by[found[i]]++;
  }
}

void onstack_tally_release(onstack_tally *tally) {
  free(tally->rows);
  *tally = (onstack_tally){0};
}
