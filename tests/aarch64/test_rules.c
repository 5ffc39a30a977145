/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rules out of call frame information that only this architecture has. The bytes are those of real functions; what the
 * rules must be is what the instructions do.
 */
#include "check.h"

#include "sampler/modules/rule_table.h"

#include <string.h>

#define SECTION_AT ((uint64_t)0x500000)
#define FUNCTION_AT ((uint64_t)0x400000)

/* "zR", 4, -8, LR; pc-relative; CFA = SP. */
static const uint8_t common[] = {0x10, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0};

static const onstack_rule_table *derive(uint32_t length, const uint8_t *instructions, size_t size) {
  uint8_t bytes[128];
  uint32_t words[4] = {(uint32_t)(13 + size), sizeof(common) + 4, 0, length};
  words[2] = (uint32_t)(FUNCTION_AT - (SECTION_AT + sizeof(common) + 8));
  memcpy(bytes, common, sizeof(common));
  memcpy(bytes + sizeof(common), words, sizeof(words));
  bytes[sizeof(common) + 16] = 0; /* no augmentation data */
  memcpy(bytes + sizeof(common) + 17, instructions, size);
  onstack_cfi_section section = {.bytes = bytes, .size = sizeof(common) + 17 + size, .address = SECTION_AT};
  const onstack_rule_table *table;
  onstack_rule_table_derive(&section, FUNCTION_AT, FUNCTION_AT + (1u << 20), &table);
  return table;
}

static bool is_rule(const onstack_rule_table *table, uint64_t offset, int32_t cfa_offset, int16_t ra) {
  const onstack_rule *rule = table ? onstack_rules_lookup(table, offset) : NULL;
  return rule && rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == cfa_offset && rule->ra == ra &&
         rule->fp == ONSTACK_AT_SAME;
}

/*
 * _dl_runtime_resolve of glibc 2.36. It is entered from .plt, which has pushed x16 and LR:
 *    0 bti c;  4 stp x8, x9, [sp, #-208]!;  ...;  ... ldp .., [sp], #208;  ldp x17, x30, [sp], #16;  br x17
 */
static void lazy_resolver(void) {
  static const uint8_t instructions[] = {0x41, 0x11, 30, 0x7f, 0x41, 0x0e, 0xd0, 0x01, 0x5a, 0x0e, 0, 0x41, 0x13, 2};
  const onstack_rule_table *table = derive(0x78, instructions, sizeof(instructions));
  check(is_rule(table, 0, 16, -1), "resolver: at bti c the two words of .plt are on the stack", "%s",
        "the rule of this instruction");
  check(is_rule(table, 4, 16, -1), "resolver: so before its first push", "%s", "the rule of this instruction");
  check(is_rule(table, 8, 224, -1) && is_rule(table, 0x6c, 224, -1), "resolver: with its own frame", "%s",
        "the rule of this instruction");
  check(is_rule(table, 0x70, 16, -1), "resolver: behind its frame", "%s", "the rule of this instruction");
  check(is_rule(table, 0x74, 0, ONSTACK_AT_SAME), "resolver: at br all is popped and LR is loaded", "%s",
        "the rule of this instruction");
  onstack_rule_table_free(table);
}

/* stp x19, x30, [sp, #-16]!: looks like the resolver's rules, and is an ordinary function. */
static void small_frame(void) {
  static const uint8_t instructions[] = {0x41, 0x0e, 16, 0x9e, 1, 0x93, 2, 0x42, 0xde, 0xd3, 0x0e, 0};
  const onstack_rule_table *table = derive(0x10, instructions, sizeof(instructions));
  check(is_rule(table, 0, 0, ONSTACK_AT_SAME), "small frame: the caller is in LR at the entry", "%s",
        "the rule of this instruction");
  check(is_rule(table, 4, 16, -1), "small frame: then on the stack", "%s", "the rule of this instruction");
  check(is_rule(table, 12, 0, ONSTACK_AT_SAME), "small frame: and in LR again", "%s", "the rule of this instruction");
  onstack_rule_table_free(table);
}

int main(void) {
  lazy_resolver();
  small_frame();
  return check_status();
}
