/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/module_statistics.h"

#include "sampler/unwind/unwinder.h"

#include <stdlib.h>
#include <string.h>

#define MODULE_STATISTICS_STEP 32u

static bool module_statistics_grow(onstack_module_statistics *statistics, uint32_t number) {
  uint32_t count = (number + MODULE_STATISTICS_STEP) & ~(MODULE_STATISTICS_STEP - 1);
  onstack_module_statistics_row *rows = realloc(statistics->rows, count * sizeof(*rows));
  if (!rows) return false;
  memset(rows + statistics->count, 0, (count - statistics->count) * sizeof(*rows));
  statistics->rows = rows;
  statistics->count = count;
  return true;
}

static onstack_module_statistics_row *module_statistics_row(onstack_module_statistics *statistics, uint64_t address) {
  uint32_t number = onstack_modules_find(address, &statistics->last) == ONSTACK_MODULE_HERE ? statistics->last.number : 0;
  if (number >= statistics->count && !module_statistics_grow(statistics, number)) return statistics->rows;
  return &statistics->rows[number];
}

void onstack_module_statistics_add(onstack_module_statistics *statistics, const onstack_walked *stack) {
  const uint8_t *unwound_by = stack->unwound_by;
  statistics->last.low = statistics->last.high = 0; /* it may have been unloaded since */
  for (uint32_t i = 0; i < stack->count; i++) {
    onstack_module_statistics_row *row = module_statistics_row(statistics, i == 0 ? stack->frames[0] : stack->frames[i] - 1);
    if (!row) return;
    bool last = i + 1 == stack->count;
    if (last && stack->truncation != ONSTACK_TRUNCATED_NOT)
      row->lost_by[stack->truncation]++;
    else if (last)
      row->by[ONSTACK_BY_NOTHING]++;
    else if (unwound_by[i] != ONSTACK_BY_NOTHING && unwound_by[i] < ONSTACK_COUNT_OF(row->by))
      row->by[unwound_by[i]]++;
  }
}

void onstack_module_statistics_release(onstack_module_statistics *statistics) {
  free(statistics->rows);
  *statistics = (onstack_module_statistics){0};
}
