/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rules of single addresses: they are those of the whole table, whatever the bytes say the search ends, and a session's
 * first seconds have whole stacks by them while no table is made.
 */
#include "sampler/modules/fde_lookup.h"
#include "sampler/modules/modules.h"
#include "sampler/modules/rule_table.h"
#include "sampler/api/session.h"
#include "support.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(fde_lookup, .init = t_setup);

/* A function of many steps, whose FDE has 30 KB; gcc's largest has 20. compare() comes to it in the program. */
__asm__(
    ".text\n.type fde_lookup_long,@function\nfde_lookup_long:\n.cfi_startproc\n.rept 5000\nnop\n.cfi_adjust_cfa_offset 16\n"
    "nop\n.cfi_adjust_cfa_offset -16\n.endr\nret\n.cfi_endproc\n.size fde_lookup_long,.-fde_lookup_long\n");

typedef struct object {
  const char *name; /* part of its path; "": the program */
  onstack_fde_source source;
  uint64_t base, text_low, text_high, frames, frames_size;
} object;

static int find_object(struct dl_phdr_info *info, size_t size, void *data) {
  object *found = data;
  (void)size;
  if (found->name[0] ? !strstr(info->dlpi_name, found->name) : info->dlpi_name[0] != 0) return 0;
  found->base = UINT64_MAX;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const uint64_t low = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) found->source.header = low;
    if (segment->p_type == PT_LOAD && low < found->base) found->base = low;
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
    found->text_low = low;
    found->text_high = low + segment->p_memsz;
  }
  int32_t relative;
  memcpy(&relative, (const void *)(uintptr_t)(found->source.header + 4), sizeof(relative));
  found->frames = found->source.header + 4 + (uint64_t)(int64_t)relative;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const uint64_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = low + info->dlpi_phdr[i].p_filesz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && found->frames >= low && found->frames < end) {
      found->source.low = low;
      found->source.high = end;
      found->frames_size = end - found->frames;
    }
  }
  return 1;
}

/* An address has the same rule both ways, or none. */
static void compare(const char *name) {
  object it = {.name = name};
  if (dl_iterate_phdr(find_object, &it) == 0) {
    printf("no %s: linked statically\n", name);
    return;
  }
  onstack_cfi_section section = {
      .bytes = (const uint8_t *)(uintptr_t)it.frames, .size = it.frames_size, .address = it.frames};
  const onstack_rule_table *table;
  cr_assert_eq(onstack_rule_table_derive(&section, it.base, it.text_high, &table), 0);
  cr_assert_not_null(table);
  unsigned long same = 0;
  onstack_fde_index index = {0};
  const uint64_t step = (it.text_high - it.text_low) / 20000 + 1;
  for (uint64_t address = it.text_low; address < it.text_high; address += step) {
    onstack_rule rule;
    const onstack_rule *wanted = onstack_rules_lookup(table, address - it.base);
    const bool found = onstack_fde_lookup(&it.source, &index, address, &rule);
    if (found) {
      cr_assert_not_null(wanted, "%s at %#lx has a rule", name, (unsigned long)(address - it.base));
      cr_assert_eq(memcmp(&rule, wanted, sizeof(rule)), 0, "%s at %#lx", name, (unsigned long)(address - it.base));
      same++;
    } else {
      cr_assert(!wanted, "%s at %#lx has none", name, (unsigned long)(address - it.base));
    }
  }
  cr_assert_gt(same, 100);
  onstack_rule_table_free(table);
}

Test(fde_lookup, an_address_has_the_rule_that_the_table_has) {
  compare("");
  compare("libc.so");
}

Test(fde_lookup, equal_rules_are_one) {
  onstack_rule rule = {ONSTACK_CFA_SP, 0, ONSTACK_AT_SAME, -1, ONSTACK_AT_SAME, 8};
  const onstack_rule *first = onstack_fde_intern(&rule);
  cr_assert_not_null(first);
  cr_assert_eq(memcmp(first, &rule, sizeof(rule)), 0);
  cr_assert_eq(onstack_fde_intern(&rule), first);
  int refused = 0;
  for (int i = 0; i < 5000; i++) {
    rule.cfa_offset = 16 + i * 8;
    const onstack_rule *made = onstack_fde_intern(&rule);
    if (made) cr_assert_eq(made->cfa_offset, rule.cfa_offset);
    refused += !made;
  }
  cr_assert(refused > 2000 && refused < 4000, "there is an end: %d", refused);
}

/* A copy of a header and its frames, of which bytes are changed: the search ends, and reads nothing outside. */
Test(fde_lookup, whatever_the_bytes_say) {
  object it = {.name = ""};
  dl_iterate_phdr(find_object, &it);
  cr_assert_geq(it.frames, it.source.header, "the frames lie behind their header");
  const size_t size = it.source.high - it.source.header;
  uint8_t *bytes = malloc(size);
  const onstack_fde_source copy = {(uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)bytes,
                                   (uint64_t)(uintptr_t)bytes + size};
  unsigned seed = 4711;
  unsigned long found = 0;
  for (int round = 0; round < 3000; round++) {
    memcpy(bytes, (const void *)(uintptr_t)it.source.header, size);
    for (int i = rand_r(&seed) % 6; i > 0; i--) {
      const size_t room = rand_r(&seed) % 2 ? 200 : size;
      bytes[(size_t)rand_r(&seed) % (room < size ? room : size)] = rand_r(&seed) % 3 ? (uint8_t)rand_r(&seed) : 0xff;
    }
    onstack_fde_index index = {0};
    const uint64_t shift = copy.header - it.source.header;
    for (int i = 0; i < 10; i++) {
      onstack_rule rule;
      const uint64_t at = it.text_low + (uint64_t)rand_r(&seed) % (it.text_high - it.text_low) + shift;
      found += onstack_fde_lookup(&copy, &index, at, &rule);
    }
  }
  cr_assert_gt(found, 1000, "%lu: the copy is one that can be searched", found);
  free(bytes);
}

static bool is_pending(void *function) {
  onstack_module module = {.low = 0};
  cr_assert_eq(onstack_modules_find((uint64_t)(uintptr_t)function, &module), ONSTACK_MODULE_HERE);
  return module.pending;
}

Test(fde_lookup, stacks_are_whole_before_there_are_tables) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  onstack_session *session;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  t_burn(0.3);
  onstack_stats stats = t_stats(session);
  const bool pending = is_pending((void *)(uintptr_t)qsort);
  cr_expect(pending, "libc's table: some addresses of it were asked for");
  cr_expect(stats.recorded > 40);
  cr_expect_eq(stats.truncated, 0, "%lu", (unsigned long)stats.truncated);
  for (double end = t_now() + 10; is_pending((void *)(uintptr_t)qsort) && t_now() < end;) t_burn(0.05);
  cr_expect(!is_pending((void *)(uintptr_t)qsort), "a process that goes on has tables");
  stats = t_finish(session);
  cr_expect_eq(stats.truncated, 0, "%lu", (unsigned long)stats.truncated);
}

/* As a compiler's that keeps its whole state on the stack. */
static __attribute__((noinline)) void burn_above_a_large_frame(double seconds) {
  volatile char frame[1 << 20];
  frame[0] = 0;
  t_burn(seconds);
  frame[sizeof(frame) - 1] = frame[0];
}

Test(fde_lookup, a_frame_of_a_megabyte_has_callers) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  onstack_session *session;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  burn_above_a_large_frame(0.3);
  const bool pending = is_pending((void *)(uintptr_t)qsort);
  onstack_stats stats = t_finish(session);
  cr_expect(pending, "no table is made for it");
  cr_expect(stats.recorded > 40);
  cr_expect_eq(stats.truncated, 0, "%lu", (unsigned long)stats.truncated);
}
