/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The .eh_frame reader on hostile bytes: whatever the section says, it ends, and stays inside its copy. The copy is its
 * own heap block of exactly the size that the reader is told, so that a sanitizer sees every step outside.
 * That the rules are right is shown by tests/truth.
 */
#include "sampler/modules/rule_table.h"
#include "support.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cfi, .init = t_setup);

typedef struct section {
  uint64_t base, address;
  size_t size;
} section;

/* This program's own .eh_frame, by its header (pcrel sdata4) up to the end of the segment. */
static int find_section(struct dl_phdr_info *info, size_t size, void *data) {
  section *found = data;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
    uint64_t header = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    int32_t relative;
    memcpy(&relative, (const void *)(uintptr_t)(header + 4), sizeof(relative));
    found->address = header + 4 + (uint64_t)(int64_t)relative;
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uint64_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && found->address >= low && found->address < low + info->dlpi_phdr[i].p_filesz)
      found->size = low + info->dlpi_phdr[i].p_filesz - found->address;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (found->base == 0 || low < found->base)) found->base = low;
  }
  return 1; /* the first object is the program */
}

static section own_section(void) {
  section found = {0, 0, 0};
  dl_iterate_phdr(find_section, &found);
  cr_assert_gt(found.size, 1000);
  return found;
}

static const onstack_rule_table *derive(const section *from, const uint8_t *bytes, size_t size) {
  onstack_cfi_section copy = {.bytes = bytes, .size = size, .address = from->address};
  const onstack_rule_table *table;
  onstack_rule_table_derive(&copy, from->base, from->base + ((uint64_t)1 << 24), &table);
  return table;
}

/* Every row can be looked up, and every result is one of the table's rules. */
static void look_up(const onstack_rule_table *table) {
  if (!table) return;
  uint64_t end = (uint64_t)table->chunk_count << ONSTACK_RULE_CHUNK_BITS;
  for (uint64_t offset = 0; offset < end && offset < 1u << 20; offset += 61) {
    const onstack_rule *rule = onstack_rules_lookup(table, offset);
    cr_assert(!rule || (rule >= table->rules && rule < table->rules + table->rule_count));
  }
  cr_assert_null(onstack_rules_lookup(table, end), "behind the last chunk");
  onstack_rule_table_free(table);
}

Test(cfi, the_own_section_gives_rules_for_this_function) {
  section from = own_section();
  const onstack_rule_table *table = derive(&from, (const uint8_t *)(uintptr_t)from.address, from.size);
  cr_assert_not_null(table);
  const onstack_rule *entry = onstack_rules_lookup(table, (uint64_t)(uintptr_t)look_up - from.base);
  cr_assert_not_null(entry);
#if defined(__x86_64__)
  cr_assert_eq(entry->cfa, ONSTACK_CFA_SP, "at a function's entry the CFA is SP + 8");
  cr_assert_eq(entry->cfa_offset, 8);
  cr_assert_eq(entry->ra, -1);
#endif
  onstack_rule_table_free(table);
}

Test(cfi, truncated_anywhere) {
  section from = own_section();
  for (size_t size = 0; size < from.size && size < 600; size++) {
    uint8_t *bytes = malloc(size ? size : 1);
    memcpy(bytes, (const void *)(uintptr_t)from.address, size);
    look_up(derive(&from, bytes, size));
    free(bytes);
  }
}

Test(cfi, mutated_bytes) {
  section from = own_section();
  size_t size = from.size < 4096 ? from.size : 4096;
  uint8_t *bytes = malloc(size);
  unsigned seed = 12345;
  for (int round = 0; round < 20000; round++) {
    memcpy(bytes, (const void *)(uintptr_t)from.address, size);
    int changes = 1 + rand_r(&seed) % 8;
    for (int i = 0; i < changes; i++) {
      size_t at = (size_t)rand_r(&seed) % size;
      bytes[at] = rand_r(&seed) % 3 ? (uint8_t)rand_r(&seed) : 0xff;
    }
    look_up(derive(&from, bytes, size));
  }
  free(bytes);
}

#if defined(__x86_64__)

#define MADE_AT 0x100000u /* where a section of our own is loaded; its functions lie below */

typedef struct made {
  uint8_t bytes[512];
  size_t size;
} made;

static void put(made *section, const void *bytes, size_t size) {
  memcpy(section->bytes + section->size, bytes, size);
  section->size += size;
}

static void put_word(made *section, uint32_t word) { put(section, &word, 4); }

/* Version 1, "zR", pcrel sdata4: CFA = RSP + 8, the return address at CFA - 8. */
static void put_common(made *section) {
  static const uint8_t body[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0};
  put_word(section, 4 + sizeof(body));
  put_word(section, 0);
  put(section, body, sizeof(body));
}

/* A function that has pushed `words` at its second byte. */
static void put_function(made *section, uint32_t low, uint32_t size, uint8_t words) {
  const uint8_t body[] = {0, 0x41, 0x0e, (uint8_t)(8 + 8 * words), 0, 0, 0};
  put_word(section, 4 + 8 + sizeof(body));
  put_word(section, (uint32_t)section->size);
  put_word(section, low - (MADE_AT + (uint32_t)section->size));
  put_word(section, size);
  put(section, body, sizeof(body));
}

static int32_t offset_at(const onstack_rule_table *table, uint32_t offset) {
  const onstack_rule *rule = onstack_rules_lookup(table, offset);
  return rule ? rule->cfa_offset : -1;
}

Test(cfi, functions_in_any_order_and_nothing_between_them) {
  made section = {.size = 0};
  put_common(&section);
  put_function(&section, 0x70030, 0x10, 4);
  put_function(&section, 0x10000, 0x13, 1); /* behind it is fill, or a function of a few bytes without CFI */
  put_function(&section, 0x10020, 0x10, 2);
  put_function(&section, 0x10050, 0x13, 3);
  put_word(&section, 0);
  onstack_cfi_section copy = {.bytes = section.bytes, .size = section.size, .address = MADE_AT};
  const onstack_rule_table *table;
  cr_assert_eq(onstack_rule_table_derive(&copy, 0, MADE_AT, &table), 0);
  cr_assert_not_null(table);
  cr_expect_eq(offset_at(table, 0xffff), -1);
  cr_expect_eq(offset_at(table, 0x10000), 8);
  cr_expect_eq(offset_at(table, 0x10012), 16);
  cr_expect_eq(offset_at(table, 0x10013), -1);
  cr_expect_eq(offset_at(table, 0x1001f), -1);
  cr_expect_eq(offset_at(table, 0x10020), 8);
  cr_expect_eq(offset_at(table, 0x1002f), 24);
  cr_expect_eq(offset_at(table, 0x10030), -1, "code that nobody describes");
  cr_expect_eq(offset_at(table, 0x10050), 8);
  cr_expect_eq(offset_at(table, 0x10063), -1);
  cr_expect_eq(offset_at(table, 0x70030), 8);
  cr_expect_eq(offset_at(table, 0x7003f), 40);
  cr_expect_eq(offset_at(table, 0x70040), -1);
  onstack_rule_table_free(table);
}

#endif
