/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/go_runtime.h"

#include <string.h>

/* runtime/symtab.go, pcHeader: magic, two zero bytes, pc quantum, pointer size, then words. */
#define GO_PCLNTAB_MAGIC 0xfffffff1u /* Go 1.20 and later */
#define GO_PCLNTAB_HEADER 72u

static uint64_t pclntab_word(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

static uint32_t pclntab_half(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

bool onstack_go_pclntab_open(onstack_go_pclntab *table, const void *base, size_t size) {
  const uint8_t *bytes = base;
  if (size < GO_PCLNTAB_HEADER || pclntab_half(bytes) != GO_PCLNTAB_MAGIC) return false;
  if (bytes[4] != 0 || bytes[5] != 0 || (bytes[6] != 1 && bytes[6] != 4) || bytes[7] != 8) return false;
  table->base = bytes;
  table->size = size;
  table->function_count = pclntab_word(bytes + 8);
  table->text = pclntab_word(bytes + 24);
  table->names = pclntab_word(bytes + 32);
  table->pc_values = pclntab_word(bytes + 56);
  table->functions = pclntab_word(bytes + 64);
  table->quantum = bytes[6];
  /* functab: function_count pairs of 32-bit offsets and one more offset, the end of text. */
  return table->names < size && table->pc_values < size && table->function_count <= UINT32_MAX &&
         table->functions >= GO_PCLNTAB_HEADER && table->functions < size && table->function_count > 0 &&
         table->function_count <= (size - table->functions) / 8 && table->function_count * 8 + 4 <= size - table->functions;
}

/* The name of the function whose _func record lies at `offset` from the function table; NULL if it is out of bounds. */
static const char *pclntab_name(const onstack_go_pclntab *table, uint32_t offset) {
  if (offset > table->size - table->functions || table->size - table->functions - offset < 8) return NULL;
  uint64_t at = table->names + pclntab_half(table->base + table->functions + offset + 4);
  if (at >= table->size || !memchr(table->base + at, 0, table->size - at)) return NULL;
  return (const char *)table->base + at;
}

void onstack_go_pclntab_each(const onstack_go_pclntab *table,
                             void (*visit)(void *data, const char *name, uint64_t low, uint64_t high), void *data) {
  const uint8_t *functab = table->base + table->functions;
  for (uint64_t i = 0; i < table->function_count; i++) {
    uint64_t low = table->text + pclntab_half(functab + i * 8);
    uint64_t high = table->text + pclntab_half(functab + i * 8 + 8);
    const char *name = pclntab_name(table, pclntab_half(functab + i * 8 + 4));
    if (name && low < high) visit(data, name, low, high);
  }
}
