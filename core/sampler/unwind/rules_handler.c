/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/rules.h"

#include "sampler/unwind/pc_cache.h"

static onstack_module rules_first_modules[ONSTACK_MODULES_FIRST];
ONSTACK_INTERNAL_DEFINE onstack_module_map onstack_modules = {.modules = rules_first_modules};
ONSTACK_INTERNAL_DEFINE onstack_pc_entry onstack_pc_cache[ONSTACK_PC_CACHE_ENTRIES];
ONSTACK_INTERNAL_DEFINE uint64_t onstack_pc_epoch = 1; /* not 0: an empty entry must not check for PC 0 */

ONSTACK_HANDLER const onstack_rule *onstack_rules_lookup(const onstack_rule_table *table, uint64_t offset) {
  uint64_t chunk = offset >> ONSTACK_RULE_CHUNK_BITS;
  uint16_t within = (uint16_t)offset;
  if (chunk >= table->chunk_count) return NULL;
  uint32_t low = table->first_row[chunk], high = table->first_row[chunk + 1];
  /* The first row behind `within`; the one before it holds, be it in an earlier chunk. */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (table->rows[middle].offset <= within)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return NULL;
  const onstack_rule *rule = &table->rules[table->rows[low - 1].rule];
  return rule->cfa == ONSTACK_CFA_NONE ? NULL : rule;
}

static onstack_pc_entry described[ONSTACK_DESCRIBED_BUCKETS][ONSTACK_DESCRIBED_BUCKET];

static ONSTACK_HANDLER onstack_pc_entry *described_bucket(uint64_t address) {
  return described[(address * 0x9e3779b97f4a7c15u) >> 54]; /* the upper 10 bits: 1024 buckets */
}

ONSTACK_HANDLER const onstack_rule *onstack_described_find(uint64_t address) {
  const uint64_t seal = onstack_pc_seal(onstack_load_relaxed(&onstack_modules.loads));
  const onstack_pc_entry *bucket = described_bucket(address);
  for (uint32_t i = 0; i < ONSTACK_DESCRIBED_BUCKET; i++) {
    const uint64_t value = onstack_load_relaxed(&bucket[i].value);
    if (value != 0 && onstack_load_relaxed(&bucket[i].check) == onstack_pc_mix(address, value, seal))
      return (const onstack_rule *)(uintptr_t)value;
  }
  return NULL;
}

void onstack_described_put(uint64_t address, const onstack_rule *rule) {
  static uint32_t turn; /* where a bucket is full the entries are displaced in turn */
  onstack_pc_entry *bucket = described_bucket(address), *entry = &bucket[turn++ % ONSTACK_DESCRIBED_BUCKET];
  for (uint32_t i = 0; i < ONSTACK_DESCRIBED_BUCKET; i++)
    if (bucket[i].value == 0) entry = &bucket[i];
  const uint64_t value = (uint64_t)(uintptr_t)rule, seal = onstack_pc_seal(onstack_modules.loads);
  onstack_publish(&entry->value, value); /* the rule before its address */
  onstack_store_relaxed(&entry->check, onstack_pc_mix(address, value, seal));
}

/* Copies the module that holds `address` to *out. */
static ONSTACK_HANDLER onstack_modules_status rules_find_module(uint64_t address, onstack_module *out) {
  const uint32_t begun = onstack_seqlock_begin(&onstack_modules.lock);
  const onstack_module *modules = onstack_load_relaxed(&onstack_modules.modules);
  const uint32_t count = onstack_load_relaxed(&onstack_modules.count);
  const bool whole = onstack_load_relaxed(&onstack_modules.left_out) == 0;
  uint32_t low = 0, high = count;
  /* Before the array is read: its length belongs to it. */
  if (!onstack_seqlock_held(&onstack_modules.lock, begun)) return ONSTACK_MODULES_CHANGING;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (onstack_load_relaxed(&modules[middle].high) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  const onstack_module *module = &modules[low < count ? low : 0];
  onstack_module copy;
  copy.low = onstack_load_relaxed(&module->low);
  copy.high = onstack_load_relaxed(&module->high);
  copy.base = onstack_load_relaxed(&module->base);
  copy.table = onstack_load_relaxed(&module->table);
  copy.since = onstack_load_relaxed(&module->since);
  copy.number = onstack_load_relaxed(&module->number);
  copy.pending = onstack_load_relaxed(&module->pending);
  if (!onstack_seqlock_held(&onstack_modules.lock, begun)) return ONSTACK_MODULES_CHANGING;
  if (low >= count || address - copy.low >= copy.high - copy.low)
    return whole ? ONSTACK_MODULE_NONE : ONSTACK_MODULES_CHANGING;
  *out = copy;
  return ONSTACK_MODULE_HERE;
}

ONSTACK_HANDLER onstack_modules_status onstack_modules_find(uint64_t address, onstack_module *last) {
  return address - last->low < last->high - last->low ? ONSTACK_MODULE_HERE : rules_find_module(address, last);
}

ONSTACK_HANDLER const onstack_rule *onstack_rules_find(uint64_t address, onstack_module *last) {
  if (onstack_modules_find(address, last) != ONSTACK_MODULE_HERE) return NULL;
  return last->table ? onstack_rules_lookup(last->table, address - last->base) : NULL;
}
