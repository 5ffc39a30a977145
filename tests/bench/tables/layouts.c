/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "layouts.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK (UINT64_C(1) << ONSTACK_RULE_CHUNK_BITS)

static uint64_t digest(const onstack_rule *rule) {
  return rule->cfa == ONSTACK_CFA_NONE ? 0 : rule->cfa + (uint64_t)(uint32_t)rule->cfa_offset * 16;
}

/* ---- four bytes a row: onstack's own table and look-up ---- */

static void *make_rows4(const onstack_rule_table *table, size_t *bytes) {
  *bytes = table->bytes;
  return (void *)(uintptr_t)table;
}

static uint64_t look_up_rows4(const void *made, uint64_t offset) {
  const onstack_rule *rule = onstack_rules_lookup(made, offset);
  return rule ? digest(rule) : 0;
}

/* ---- eight bytes a row: the whole offset, and the rule itself in four bytes ---- */

typedef struct row8 {
  uint32_t offset;
  /* CFA kind 4 bits, CFA offset 18, saved FP 6, return address in the usual place 1, RBX 3. What does not fit would be
     "no rule": counted by nobody here, since only time and size are compared. */
  uint32_t packed;
} row8;

typedef struct table8 {
  uint32_t row_count, chunk_count;
  uint32_t *first_row; /* NULL: one search over all rows */
  row8 *rows;
} table8;

static uint32_t pack(const onstack_rule *rule) {
  uint32_t fp = rule->fp == ONSTACK_AT_SAME ? 0 : (uint32_t)rule->fp & 63;
  return rule->cfa | ((uint32_t)rule->cfa_offset & 0x3ffff) << 4 | fp << 22 | (uint32_t)(rule->ra == -1) << 28 |
         ((uint32_t)rule->bx & 7) << 29;
}

static table8 *make_table8(const onstack_rule_table *table, size_t *bytes, int chunked) {
  table8 *made = calloc(1, sizeof *made);
  row8 *rows = malloc(table->row_count * sizeof *rows);
  uint32_t *first_row = malloc((table->chunk_count + 1) * sizeof *first_row);
  if (!made || !rows || !first_row) return NULL;
  for (uint32_t chunk = 0; chunk < table->chunk_count; chunk++)
    for (uint32_t i = table->first_row[chunk]; i < table->first_row[chunk + 1]; i++)
      rows[i] = (row8){(uint32_t)(chunk * CHUNK) | table->rows[i].offset, pack(&table->rules[table->rows[i].rule])};
  memcpy(first_row, table->first_row, (table->chunk_count + 1) * sizeof *first_row);
  *made = (table8){table->row_count, table->chunk_count, chunked ? first_row : NULL, rows};
  *bytes = table->row_count * sizeof *rows + (chunked ? (table->chunk_count + 1) * sizeof *first_row : 0);
  return made;
}

static void *make_rows8(const onstack_rule_table *table, size_t *bytes) { return make_table8(table, bytes, 0); }

static void *make_rows8_chunked(const onstack_rule_table *table, size_t *bytes) { return make_table8(table, bytes, 1); }

static uint64_t look_up_rows8(const void *made, uint64_t offset) {
  const table8 *table = made;
  uint32_t low = 0, high = table->row_count;
  if (table->first_row) {
    uint64_t chunk = offset / CHUNK;
    if (chunk >= table->chunk_count) return 0;
    low = table->first_row[chunk];
    high = table->first_row[chunk + 1];
  }
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (table->rows[middle].offset <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return 0;
  uint32_t packed = table->rows[low - 1].packed;
  return (packed & 15) == ONSTACK_CFA_NONE ? 0 : (packed & 15) + (uint64_t)(packed >> 4 & 0x3ffff) * 16;
}

/* ---- four bytes a row with as coarse an index as the row's 16 bits allow: where the rows of each 64 KiB begin ---- */

#define COARSE_BITS 16u

typedef struct coarse4 {
  const onstack_rule_table *table;
  uint32_t count;
  uint32_t first_row[]; /* count + 1 */
} coarse4;

static void *make_rows4_coarse(const onstack_rule_table *table, size_t *bytes) {
  uint32_t within = 1u << (COARSE_BITS - ONSTACK_RULE_CHUNK_BITS);
  uint32_t count = (table->chunk_count + within - 1) / within;
  size_t index_bytes = (count + (size_t)1) * sizeof(uint32_t);
  coarse4 *made = malloc(sizeof *made + index_bytes);
  if (!made) return NULL;
  *made = (coarse4){table, count};
  for (uint32_t chunk = 0; chunk < count; chunk++) made->first_row[chunk] = table->first_row[chunk * within];
  made->first_row[count] = table->row_count;
  *bytes = table->bytes + index_bytes - (table->chunk_count + (size_t)1) * sizeof(uint32_t); /* in its place */
  return made;
}

static uint64_t look_up_rows4_coarse(const void *made, uint64_t offset) {
  const coarse4 *coarse = made;
  const onstack_rule_table *table = coarse->table;
  uint64_t chunk = offset >> COARSE_BITS;
  if (offset >> ONSTACK_RULE_CHUNK_BITS >= table->chunk_count) return 0;
  uint32_t low = coarse->first_row[chunk], high = coarse->first_row[chunk + 1];
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (table->rows[middle].offset <= (uint16_t)offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? 0 : digest(&table->rules[table->rows[low - 1].rule]);
}

const layout layouts[] = {
    {"rows4", make_rows4, look_up_rows4},
    {"rows4-coarse", make_rows4_coarse, look_up_rows4_coarse},
    {"rows8", make_rows8, look_up_rows8},
    {"rows8-chunked", make_rows8_chunked, look_up_rows8},
};
const size_t layout_count = sizeof layouts / sizeof *layouts;
