/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The arm64 half of the unwinder `rules`, wherever the tests run: its sources are compiled into this file as that
 * architecture sees them, with memory that was recorded on one (tests/aarch64/fixtures). Registers and stacks are data,
 * so nothing of it needs the processor.
 */
#define ONSTACK_SINGLE_FILE 1 /* all of it is static here: the library's own symbols are the host's */
#include "platform/atomics.h"
#include "platform/sys.h"
#include "platform/context.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#undef __x86_64__
#define __aarch64__ 1
#endif
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "platform/elf_file.c"
#include "sampler/modules/cfi.c"
#include "sampler/modules/cfi_entry.c"
#include "sampler/modules/go_layout_aarch64.c"
#include "sampler/modules/go_pclntab.c"
#include "sampler/modules/go_runtime.c"
#include "platform/loader.c"
#include "platform/process.c"
#include "sampler/modules/rule_table.c"
#include "sampler/unwind/code_map_handler.c"
#include "sampler/unwind/go_stack_handler.c"
#include "sampler/unwind/memory_handler.c"
#include "sampler/unwind/rules_handler.c"
#include "sampler/unwind/unwinder_rules_handler.c"

static bool onstack_stack_bounds_request(onstack_stack_bounds *bounds, uint64_t address) {
  (void)bounds;
  (void)address;
  return false;
}

/* Nobody samples here. */
static bool onstack_readers_have_left(void) { return true; }

static uint64_t thread_pointer; /* recorded */
static uint64_t onstack_thread_pointer(void) { return thread_pointer; }

/* ---- recorded memory ---- */

#define WORDS 65536u

static struct { uint64_t address, value; } words[WORDS];

static uint32_t find_word(uint64_t address) {
  uint32_t i = (uint32_t)((address * 0x9e3779b97f4a7c15u) >> 40) & (WORDS - 1);
  while (words[i].address && words[i].address != address) i = (i + 1) & (WORDS - 1);
  return i;
}

static void set_word(uint64_t address, uint64_t value) {
  uint32_t i = find_word(address);
  words[i].address = address;
  words[i].value = value;
}

static bool read_recorded(onstack_memory *memory, uint64_t address, uint64_t pair[2]) {
  uint32_t first = find_word(address), second = find_word(address + 8);
  (void)memory;
  if (!words[first].address || !words[second].address) return false;
  pair[0] = words[first].value;
  pair[1] = words[second].value;
  return true;
}
static const onstack_reader recorded = {"recorded", NULL, read_recorded};

/* ---- the format (tests/aarch64/fixtures/writer.h) ---- */

#define FRAMES 512u

typedef struct fixture {
  uint8_t *bytes;
  size_t size, at;
  uint64_t word, pc, sp, fp, lr, x2, x3;
  uint64_t frames[FRAMES]; /* of the sample, behind the first: the outermost first */
  uint32_t count;
} fixture;

static uint64_t take_number(fixture *from) {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 70; shift += 7) {
    cr_assert(from->at < from->size, "the fixture is cut");
    uint8_t byte = from->bytes[from->at++];
    value |= (uint64_t)(byte & 0x7f) << (shift & 63);
    if (!(byte & 0x80)) break;
  }
  return value;
}

static uint64_t take_difference(fixture *from, uint64_t base) {
  uint64_t value = take_number(from);
  return base + (value >> 1 ^ (0 - (value & 1)));
}

static void take_range(fixture *from) {
  onstack_code_range *range = &onstack_code.ranges[onstack_code.count++];
  range->low = take_number(from);
  range->high = take_number(from);
}

static void take_module(fixture *from) {
  onstack_module *module = &onstack_modules.modules[onstack_modules.count++];
  module->low = take_number(from);
  module->high = take_number(from);
  module->base = take_number(from);
  onstack_cfi_section section = {.address = take_number(from)};
  section.size = take_number(from);
  section.bytes = from->bytes + from->at;
  from->at += section.size;
  cr_assert(from->at <= from->size);
  onstack_rule_table_derive(&section, module->base, module->high, &module->table);
  cr_assert_not_null(module->table);
}

static int by_address(const void *a, const void *b) {
  uint64_t left = ((const onstack_module *)a)->low, right = ((const onstack_module *)b)->low;
  return (left > right) - (left < right);
}

/* ---- Go's tables: one record a function, as runtime/runtime2.go's _func has them ---- */

#define GO_BYTES ((size_t)1 << 18)

typedef struct go_builder {
  uint8_t functab[GO_BYTES], functions[GO_BYTES], pctab[GO_BYTES];
  uint32_t count, used, pc_used;
} go_builder;

static void put_half(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof(value)); }

static void add_function(go_builder *to, uint64_t offset, uint8_t flags, const uint8_t *pcsp, uint64_t size) {
  cr_assert(to->used + 64 < GO_BYTES && to->pc_used + size < GO_BYTES && to->count * 8 + 16 < GO_BYTES);
  put_half(to->functab + to->count * 8, (uint32_t)offset);
  put_half(to->functab + to->count * 8 + 4, to->used);
  put_half(to->functions + to->used + GO_FUNC_PCSP, size ? to->pc_used : 0);
  to->functions[to->used + GO_FUNC_FLAG] = flags;
  if (size) memcpy(to->pctab + to->pc_used, pcsp, size);
  to->pc_used += (uint32_t)size;
  to->used += 48;
  to->count++;
}

/* Code that was not recorded lies in functions without a table. */
static void take_functions(fixture *from, onstack_go_runtime *go) {
  go_builder *to = calloc(1, sizeof(*to));
  uint64_t end = go->text.low;
  cr_assert_not_null(to);
  to->pc_used = 1; /* offset 0 says that there is no table */
  for (uint64_t i = take_number(from); i > 0; i--) {
    uint64_t low = take_number(from), high = take_number(from);
    uint8_t flags = (uint8_t)take_number(from);
    uint64_t size = take_number(from);
    if (low != end || to->count == 0) add_function(to, end - go->text.low, 0, NULL, 0);
    add_function(to, low - go->text.low, flags, from->bytes + from->at, size);
    from->at += size;
    end = high;
  }
  add_function(to, end - go->text.low, 0, NULL, 0);
  go->functions = (onstack_go_functions){
      to->functab, to->functions, to->pctab, (const uint8_t *)(to + 1), go->text.low, to->count, go->functions.quantum};
}

/* Where the runtime keeps things is read out of its code, which must be where it was. */
static void map_text(const onstack_code_range *text) {
  uint64_t low = text->low & ~(uint64_t)0xffff, high = (text->high + 0xffff) & ~(uint64_t)0xffff;
  void *at = mmap((void *)(uintptr_t)low, high - low, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  cr_assert(at == (void *)(uintptr_t)low || errno == EEXIST, "the place of the recorded text cannot be had");
}

static void take_code(fixture *from) {
  const onstack_code_range *text = &onstack_code.go[0].text;
  uint64_t low = take_number(from), size = take_number(from);
  cr_assert(low >= text->low && low + size <= text->high && from->at + size <= from->size);
  memcpy((void *)(uintptr_t)low, from->bytes + from->at, size);
  from->at += size;
}

static void take_go(fixture *from) {
  onstack_go_runtime *go = &onstack_code.go[0];
  memset(go, 0, sizeof(*go));
  go->text.low = take_number(from);
  go->text.high = take_number(from);
  go->functions.quantum = (uint32_t)take_number(from);
  for (uint64_t i = take_number(from); i > 0; i--) {
    char name[64] = "";
    uint64_t length = take_number(from);
    cr_assert(length < sizeof(name));
    memcpy(name, from->bytes + from->at, length);
    from->at += length;
    uint64_t low = take_number(from);
    go_note_function(go, name, low, take_number(from));
  }
  take_functions(from, go);
  map_text(&go->text);
  onstack_code.go_count = 1;
}

static void take_sample(fixture *from) {
  from->pc = take_difference(from, from->pc);
  from->sp = take_difference(from, from->sp);
  from->fp = take_difference(from, from->fp);
  from->lr = take_difference(from, from->lr);
  uint64_t same = take_number(from), more = take_number(from);
  cr_assert(same <= from->count && same + more <= FRAMES);
  for (uint64_t i = same; i < same + more; i++) from->frames[i] = take_difference(from, i ? from->frames[i - 1] : 0);
  from->count = (uint32_t)(same + more);
}

/* The next sample, with its memory in place; false at the end. */
static bool next_sample(fixture *from) {
  while (from->at < from->size) {
    char tag = (char)from->bytes[from->at++];
    if (tag == 'X') {
      take_range(from);
    } else if (tag == 'M') {
      take_module(from);
      qsort(onstack_modules.modules, onstack_modules.count, sizeof(onstack_module), by_address);
    } else if (tag == 'W') {
      from->word = take_difference(from, from->word / 8) * 8;
      set_word(from->word, take_number(from));
    } else if (tag == 'G') {
      take_go(from);
    } else if (tag == 'C') {
      take_code(from);
    } else if (tag == 'R') {
      from->x2 = take_number(from);
      from->x3 = take_number(from);
      thread_pointer = take_number(from);
    } else {
      cr_assert_eq(tag, 'S');
      if (onstack_code.go_count && !onstack_code.go[0].layout.known) onstack_go_layout_read(&onstack_code.go[0]);
      take_sample(from);
      return true;
    }
  }
  return false;
}

static void open_fixture(fixture *from, const char *name) {
  static const char line[] = "onstack arm64 1\n";
  char path[200];
  snprintf(path, sizeof(path), "tests/aarch64/fixtures/%s.bin", name);
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s: run the tests at the top of the repository", path);
  memset(from, 0, sizeof(*from));
  from->bytes = malloc((size_t)1 << 20);
  from->size = fread(from->bytes, 1, (size_t)1 << 20, file);
  fclose(file);
  cr_assert(from->size > sizeof(line) && memcmp(from->bytes, line, sizeof(line) - 1) == 0);
  from->at = sizeof(line) - 1;
}

/* ---- replay ---- */

static onstack_walk_result walk(const fixture *from, uint64_t *frames) {
  static onstack_stack_bounds bounds;
  onstack_memory memory;
  memset(&memory, 0, sizeof(memory));
  memory.reader = &recorded;
  memory.bounds = &bounds;
  const onstack_registers registers = {.pc = from->pc, .sp = from->sp, .fp = from->fp, .lr = from->lr};
  /* The kernel's ucontext: the registers that nothing else tells, at their places (sampler/unwind/rules_aarch64.h). */
  uint64_t context[64];
  memset(context, 0, sizeof(context));
  context[(176 + 8) / 8 + 2] = from->x2;
  context[(176 + 8) / 8 + 3] = from->x3;
  const onstack_walk walk = {
      .registers = &registers, .ucontext = context, .memory = &memory, .frames = frames, .capacity = FRAMES};
  return onstack_unwinder_rules.run(&walk);
}

static bool is_as_recorded(const fixture *from, const uint64_t *frames, onstack_walk_result result) {
  if (result.truncation != ONSTACK_TRUNCATED_NOT || result.frame_count != from->count + 1) return false;
  for (uint32_t i = 0; i < from->count; i++)
    if (frames[1 + i] != from->frames[from->count - 1 - i]) return false;
  return true;
}

/* Twice: what the walk found out is remembered, and gives the same stacks. */
static void replay(const char *name, uint32_t least) {
  uint64_t frames[FRAMES];
  for (int round = 0; round < 2; round++) {
    fixture from;
    uint32_t samples = 0, wrong = 0;
    open_fixture(&from, name);
    onstack_code.count = onstack_code.go_count = onstack_modules.count = 0;
    memset(words, 0, sizeof(words));
    for (; next_sample(&from); samples++) {
      onstack_walk_result result = walk(&from, frames);
      if (is_as_recorded(&from, frames, result)) continue;
      if (wrong++ < 5)
        cr_log_error("%s: sample %u at %#lx: %u frames, %u recorded, truncation %u", name, samples, (unsigned long)from.pc,
                     result.frame_count, from.count + 1, result.truncation);
    }
    cr_expect_eq(wrong, 0, "%s, round %d: %u of %u stacks differ", name, round, wrong, samples);
    cr_expect_geq(samples, least);
    free(from.bytes);
  }
}

Test(arm64, code_without_frame_pointers) { replay("steps-nofp", 500); }
Test(arm64, code_with_signed_return_addresses) { replay("steps-pac", 500); }
Test(arm64, go_and_its_changes_of_stacks) {
  replay("go", 300);
  const onstack_go_layout *layout = &onstack_code.go[0].layout;
  /* Go 1.26, runtime/runtime2.go */
  cr_expect(layout->known && layout->g_m == 0x30 && layout->sched_sp == 0x38 && layout->sched_pc == 0x40);
  cr_expect(layout->sched_lr == 0x58 && layout->m_curg == 0xb8);
}
