/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/rule_table.h"

#include "platform/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RULE_INDEX_BITS 12u /* the hash of distinct rules begins with 4,096 places and doubles */
#define RULE_DIGIT_BITS 8u  /* offsets are sorted by four such digits */
#define RULE_DIGITS ((size_t)1 << RULE_DIGIT_BITS)
#define RULE_ALIGN 16u  /* where compilers begin functions */
#define RULE_MAX 65535u /* distinct rules; row 16-bit number. Number 0 is "no rule" */

typedef struct rule_builder {
  uint64_t base, high; /* of the object; functions elsewhere are left out */
  bool failed;         /* memory */
  onstack_cfi_function *functions;
  size_t function_count, function_room;
  onstack_rule_row *rows;
  uint32_t row_count, row_room;
  uint32_t *first_row; /* by chunk; as far as chunks have been reached */
  uint32_t chunk_count, chunk_room;
  onstack_rule *rules;
  uint32_t rule_count, rule_room;
  uint32_t *index; /* hash -> rule number + 1 */
  uint32_t index_size;
  uint64_t last_offset;
  uint64_t function_high; /* of the function that is being run */
} rule_builder;

/* Grows an array to hold one more element; false and `failed` when memory is short. */
static bool rule_grow(rule_builder *builder, void *array_pointer, uint32_t count, uint32_t *room, size_t size) {
  void *array;
  memcpy(&array, array_pointer, sizeof(array));
  if (count < *room) return true;
  uint32_t wanted = *room ? *room * 2 : 1024;
  void *grown = wanted > *room ? realloc(array, wanted * size) : NULL;
  if (!grown) {
    builder->failed = true;
    return false;
  }
  memcpy(array_pointer, &grown, sizeof(grown));
  *room = wanted;
  return true;
}

static bool rule_note_function(void *data, const onstack_cfi_function *function) {
  rule_builder *builder = data;
  if (function->low < builder->base || function->high > builder->high) return true;
  if (builder->function_count == builder->function_room) {
    size_t room = builder->function_room ? builder->function_room * 2 : 1024;
    onstack_cfi_function *grown = realloc(builder->functions, room * sizeof(*grown));
    if (!grown) {
      builder->failed = true;
      return false;
    }
    builder->functions = grown;
    builder->function_room = room;
  }
  builder->functions[builder->function_count++] = *function;
  return true;
}

/* By one digit of their offsets; equal ones keep their order. */
static void rule_sort_by_digit(const rule_builder *builder, onstack_cfi_function *to, uint32_t shift) {
  const onstack_cfi_function *from = builder->functions;
  size_t places[RULE_DIGITS + 1] = {0};
  for (size_t i = 0; i < builder->function_count; i++) places[((from[i].low - builder->base) >> shift) % RULE_DIGITS + 1]++;
  for (uint32_t i = 1; i <= RULE_DIGITS; i++) places[i] += places[i - 1];
  for (size_t i = 0; i < builder->function_count; i++)
    to[places[((from[i].low - builder->base) >> shift) % RULE_DIGITS]++] = from[i];
}

static bool rule_is_sorted(const rule_builder *builder) {
  for (size_t i = 1; i < builder->function_count; i++)
    if (builder->functions[i - 1].low > builder->functions[i].low) return false;
  return true;
}

/* Where several begin at one address, the first in the section comes first. Linkers write most sections in order; for those
   of a hundred thousand functions that they do not, comparing is several times as dear. */
static void rule_sort_functions(rule_builder *builder) {
  if (builder->failed || rule_is_sorted(builder)) return;
  onstack_cfi_function *other = malloc(builder->function_count * sizeof(*other));
  if (!other) builder->failed = true;
  for (uint32_t shift = 0; other && shift < 32; shift += RULE_DIGIT_BITS) {
    rule_sort_by_digit(builder, other, shift);
    onstack_cfi_function *sorted = other;
    other = builder->functions;
    builder->functions = sorted;
  }
  free(other);
}

static bool rule_rehash(rule_builder *builder) {
  uint32_t size = builder->index_size ? builder->index_size * 2 : 1u << RULE_INDEX_BITS;
  uint32_t *index = calloc(size, sizeof(*index));
  if (!index) {
    builder->failed = true;
    return false;
  }
  for (uint32_t i = 0; i < builder->rule_count; i++) {
    uint32_t at = onstack_rule_hash(&builder->rules[i]) & (size - 1);
    while (index[at]) at = (at + 1) & (size - 1);
    index[at] = i + 1;
  }
  free(builder->index);
  builder->index = index;
  builder->index_size = size;
  return true;
}

/* The number of a rule; 0 ("no rule") when there are too many distinct ones or memory is short. */
static uint16_t rule_intern(rule_builder *builder, const onstack_rule *rule) {
  if (builder->rule_count * 2 >= builder->index_size && !rule_rehash(builder)) return 0;
  uint32_t at = onstack_rule_hash(rule) & (builder->index_size - 1);
  for (; builder->index[at]; at = (at + 1) & (builder->index_size - 1))
    if (onstack_rule_is_same(&builder->rules[builder->index[at] - 1], rule)) return (uint16_t)(builder->index[at] - 1);
  if (builder->rule_count == RULE_MAX ||
      !rule_grow(builder, &builder->rules, builder->rule_count, &builder->rule_room, sizeof(*rule)))
    return 0;
  builder->rules[builder->rule_count] = *rule;
  builder->index[at] = ++builder->rule_count;
  return (uint16_t)(builder->rule_count - 1);
}

/* Begins the chunks up to the one that holds `offset`. */
static bool rule_open_chunks(rule_builder *builder, uint64_t offset) {
  while (builder->chunk_count <= offset >> ONSTACK_RULE_CHUNK_BITS) {
    if (!rule_grow(builder, &builder->first_row, builder->chunk_count, &builder->chunk_room, sizeof(uint32_t))) return false;
    builder->first_row[builder->chunk_count++] = builder->row_count;
  }
  return true;
}

static void rule_append(rule_builder *builder, uint64_t offset, uint16_t number) {
  if (builder->row_count > 0) {
    onstack_rule_row *last = &builder->rows[builder->row_count - 1];
    if (offset < builder->last_offset) return; /* overlapping functions: the first one keeps its ground */
    if (last->rule == number) return;
    if (offset == builder->last_offset) { /* the end of one function and the beginning of the next */
      last->rule = number;
      return;
    }
  }
  if (!rule_open_chunks(builder, offset)) return;
  if (!rule_grow(builder, &builder->rows, builder->row_count, &builder->row_room, sizeof(onstack_rule_row))) return;
  builder->rows[builder->row_count++] = (onstack_rule_row){(uint16_t)offset, number};
  builder->last_offset = offset;
}

static void rule_emit(void *data, uint64_t address, const onstack_rule *rule) {
  rule_builder *builder = data;
  if (address >= builder->base && address < builder->function_high)
    rule_append(builder, address - builder->base, rule_intern(builder, rule));
}

static void rule_run_all(rule_builder *builder, onstack_cfi_section *section) {
  onstack_rule none;
  memset(&none, 0, sizeof(none));
  rule_intern(builder, &none); /* number 0 */
  for (size_t i = 0; i < builder->function_count && !builder->failed; i++) {
    const onstack_cfi_function *function = &builder->functions[i];
    builder->function_high = function->high;
    onstack_cfi_run(section, function, rule_emit, builder);
    rule_append(builder, function->high - builder->base, 0); /* what fills the space to the next may be code without CFI */
  }
}

/* One mapping of exactly the size needed: header, rules, first rows, rows. NULL: no memory, or too large. */
static onstack_rule_table *rule_map(uint32_t chunk_count, uint32_t row_count, uint32_t rule_count) {
  const uint64_t first_bytes = ((uint64_t)chunk_count + 1) * sizeof(uint32_t);
  const uint64_t rule_bytes = (uint64_t)rule_count * sizeof(onstack_rule);
  const uint64_t bytes =
      sizeof(onstack_rule_table) + rule_bytes + first_bytes + (uint64_t)row_count * sizeof(onstack_rule_row);
  if (bytes > UINT32_MAX) return NULL;
  uint8_t *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  onstack_own_memory_changes((int64_t)bytes);
  onstack_rule_table *table = (onstack_rule_table *)(void *)memory;
  uint8_t *const rules = memory + sizeof(*table), *const first_row = rules + rule_bytes,
                 *const rows = first_row + first_bytes;
  *table = (onstack_rule_table){.chunk_count = chunk_count,
                                .row_count = row_count,
                                .rule_count = rule_count,
                                .bytes = (uint32_t)bytes,
                                .first_row = (const uint32_t *)(const void *)first_row,
                                .rows = (const onstack_rule_row *)(const void *)rows,
                                .rules = (const onstack_rule *)(const void *)rules};
  return table;
}

static const onstack_rule_table *rule_pack(const rule_builder *builder) {
  onstack_rule_table *table = rule_map(builder->chunk_count, builder->row_count, builder->rule_count);
  if (!table) return NULL;
  uint32_t *first_row = (uint32_t *)(uintptr_t)table->first_row;
  memcpy(first_row, builder->first_row, builder->chunk_count * sizeof(*first_row));
  first_row[builder->chunk_count] = builder->row_count;
  memcpy((void *)(uintptr_t)table->rules, builder->rules, builder->rule_count * sizeof(*builder->rules));
  memcpy((void *)(uintptr_t)table->rows, builder->rows, builder->row_count * sizeof(*builder->rows));
  return table;
}

int onstack_rule_table_derive(onstack_cfi_section *section, uint64_t base, uint64_t high, const onstack_rule_table **table) {
  rule_builder builder;
  *table = NULL;
  memset(&builder, 0, sizeof(builder));
  builder.base = base;
  builder.high = high - base > UINT32_MAX ? base + UINT32_MAX : high;
  onstack_cfi_each(section, rule_note_function, &builder);
  if (builder.function_count > 0) {
    rule_sort_functions(&builder);
    rule_run_all(&builder, section);
    if (!builder.failed && builder.row_count > 0) {
      *table = rule_pack(&builder);
      builder.failed = !*table;
    }
  }
  free(builder.functions);
  free(builder.rows);
  free(builder.first_row);
  free(builder.rules);
  free(builder.index);
  return builder.failed ? -ENOMEM : 0;
}

void onstack_rule_table_free(const onstack_rule_table *table) {
  if (!table) return;
  onstack_own_memory_changes(-(int64_t)table->bytes);
  munmap((void *)(uintptr_t)table, table->bytes);
}
