/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * .eh_frame of any content -> a rule table. Promises: it ends, stays inside its copy, and what comes out is a table
 * that the handler can search: its results are those of a linear search.
 * Input: one byte (where the module begins), then the section.
 */
#include "fuzz.h"

#include "sampler/modules/rule_table.h"

#define SECTION_AT ((uint64_t)0x7f0000100000)

static void check_shape(const onstack_rule_table *table) {
  fuzz_check(table->row_count > 0 && table->rule_count > 0);
  fuzz_check(table->first_row[0] == 0);
  fuzz_check(table->first_row[table->chunk_count] == table->row_count);
  for (uint32_t chunk = 0; chunk < table->chunk_count; chunk++) {
    fuzz_check(table->first_row[chunk] <= table->first_row[chunk + 1]);
    for (uint32_t row = table->first_row[chunk] + 1; row < table->first_row[chunk + 1]; row++)
      fuzz_check(table->rows[row - 1].offset < table->rows[row].offset);
  }
  for (uint32_t row = 0; row < table->row_count; row++) fuzz_check(table->rows[row].rule < table->rule_count);
  for (uint32_t i = 0; i < table->rule_count; i++) {
    fuzz_check(table->rules[i].cfa <= ONSTACK_CFA_REGISTER);
    fuzz_check(table->rules[i].ra != ONSTACK_AT_FP);
  }
}

static uint64_t row_offset(const onstack_rule_table *table, uint32_t row) {
  uint32_t chunk = 0;
  while (table->first_row[chunk + 1] <= row) chunk++;
  return (uint64_t)chunk << ONSTACK_RULE_CHUNK_BITS | table->rows[row].offset;
}

/* `row` is the last one at or before the offset. */
static void check_result(const onstack_rule_table *table, uint64_t offset, uint32_t row) {
  const onstack_rule *rule = &table->rules[table->rows[row].rule];
  if (offset >> ONSTACK_RULE_CHUNK_BITS >= table->chunk_count || rule->cfa == ONSTACK_CFA_NONE) rule = NULL;
  fuzz_check(onstack_rules_lookup(table, offset) == rule);
}

static void check_results(const onstack_rule_table *table) {
  uint32_t step = table->row_count / 64 + 1;
  uint64_t first = row_offset(table, 0);
  if (first > 0) fuzz_check(!onstack_rules_lookup(table, first - 1));
  for (uint32_t row = 0; row < table->row_count; row += step) {
    uint64_t offset = row_offset(table, row);
    uint64_t end = row + 1 < table->row_count ? row_offset(table, row + 1) : UINT64_MAX;
    check_result(table, offset, row);
    check_result(table, offset + (end - offset) / 2, row);
    check_result(table, end - 1, row);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  uint8_t *bytes = fuzz_copy(data + 1, size - 1);
  onstack_cfi_section section = {.bytes = bytes, .size = size - 1, .address = SECTION_AT};
  uint64_t base = SECTION_AT - ((uint64_t)data[0] << 16), high = SECTION_AT + ((uint64_t)1 << 20);
  const onstack_rule_table *table;
  onstack_rule_table_derive(&section, base, high, &table);
  if (table) {
    check_shape(table);
    fuzz_check(table->chunk_count <= ((high - base) >> ONSTACK_RULE_CHUNK_BITS) + 1);
    check_results(table);
    onstack_rule_table_free(table);
  }
  free(bytes);
  return 0;
}
