/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* .eh_frame of one module -> a compact rule table (sampler/unwind/rules.h). Ordinary threads; allocates. */
#ifndef ONSTACK_SAMPLER_MODULES_RULE_TABLE_H
#define ONSTACK_SAMPLER_MODULES_RULE_TABLE_H

#include "sampler/modules/cfi.h"

#include <string.h>

/* Of a rule's content, for a hash of distinct ones. In registers: a copy on the stack would be waited for. */
static inline uint32_t onstack_rule_hash(const onstack_rule *rule) {
  uint64_t head;
  memcpy(&head, rule, sizeof(head));
  const uint64_t x = (head ^ ((uint64_t)(uint32_t)rule->cfa_offset * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  return (uint32_t)(x >> 32);
}

static inline bool onstack_rule_is_same(const onstack_rule *a, const onstack_rule *b) {
  uint64_t head_a, head_b;
  memcpy(&head_a, a, sizeof(head_a));
  memcpy(&head_b, b, sizeof(head_b));
  return head_a == head_b && a->cfa_offset == b->cfa_offset;
}

/*
 * Derives the table of a section; offsets are relative to `base`, functions outside [base, high) are left out: a
 * hostile one could make the index as large as the address space. At most 4 GiB.
 * *table is NULL when there is nothing in it; the caller frees it by onstack_rule_table_free. Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_rule_table_derive(onstack_cfi_section *section, uint64_t base, uint64_t high,
                                               const onstack_rule_table **table);

ONSTACK_INTERNAL void onstack_rule_table_free(const onstack_rule_table *table);

#endif
