/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/pprof/pprof_columns.h"

#include <string.h>

/* As Go's profiles of the same things have them, where there are such. */
static const struct {
  const char *weight, *value;
} pprof_types[ONSTACK_KINDS] = {
    [ONSTACK_KIND_CPU] = {"samples", "cpu"},
    [ONSTACK_KIND_WALL] = {"samples", "wall"},
    [ONSTACK_KIND_ALLOCATION] = {"alloc_objects", "alloc_space"},
    [ONSTACK_KIND_WAIT] = {"contentions", "delay"},
    [ONSTACK_KIND_DUMP] = {NULL, "threads"},
};

static const char *pprof_unit_name(onstack_unit unit) {
  return unit == ONSTACK_UNIT_NANOSECONDS ? "nanoseconds" : unit == ONSTACK_UNIT_BYTES ? "bytes" : "count";
}

/* Readers choose a column by its type: there is one of each. */
static uint8_t pprof_column(onstack_pprof_columns *columns, const char *type, onstack_unit unit) {
  uint32_t i = 0;
  if (!type) return ONSTACK_PPROF_NO_COLUMN;
  while (i < columns->count && strcmp(columns->items[i].type, type) != 0) i++;
  if (i == columns->count) columns->items[columns->count++] = (onstack_pprof_column){type, pprof_unit_name(unit)};
  return (uint8_t)i;
}

onstack_pprof_columns onstack_pprof_columns_of(uint32_t kinds) {
  onstack_pprof_columns columns = {
      .count = 0, .held_weight = ONSTACK_PPROF_NO_COLUMN, .held_value = ONSTACK_PPROF_NO_COLUMN};
  for (onstack_kind kind = 1; kind < ONSTACK_KINDS; kind++) {
    if (!(kinds & 1u << kind)) continue;
    if (columns.first == 0) columns.first = kind;
    columns.weight[kind] = pprof_column(&columns, pprof_types[kind].weight, ONSTACK_UNIT_COUNT);
    columns.value[kind] = pprof_column(&columns, pprof_types[kind].value, onstack_kind_unit(kind));
    if (kind != ONSTACK_KIND_ALLOCATION) continue;
    columns.held_weight = pprof_column(&columns, "inuse_objects", ONSTACK_UNIT_COUNT);
    columns.held_value = pprof_column(&columns, "inuse_space", ONSTACK_UNIT_BYTES);
  }
  const bool heap = columns.first == ONSTACK_KIND_ALLOCATION;
  columns.shown = heap ? columns.held_value : columns.value[columns.first];
  columns.period_type = heap ? "space" : columns.items[columns.shown].type;
  return columns;
}
