/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "world.h"

#include "platform/defs.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/rules.h"

#include <sys/mman.h>

#define STACK_BYTES ((uint64_t)16384)
#define STACK_WORDS (STACK_BYTES / 8)
#define NATIVE_AT ((uint64_t)0x400000) /* code with rules; as much as the tables tell */
#define BARE_AT ((uint64_t)0x500000)   /* code without */
#define GO_AT ((uint64_t)0x600000)
#define CODE_BYTES ((uint64_t)0x10000)
#define GUARD_BYTES ((uint64_t)65536)
#define TLS_BYTES ((uint64_t)1 << 20)
#define ROWS_MOST 48u
#define RULES_MOST 16u
#define GO_FUNCTIONS_MOST 24u

typedef enum world_kind { WORLD_CLOSED, WORLD_HOSTILE, WORLD_PROBE, WORLD_COPY, WORLD_KINDS } world_kind;

static struct {
  world_kind kind;
  uint64_t *stack; /* real memory between guard pages; its address is what the walkers see */
  uint64_t stack_at;
  uint32_t reads;
  onstack_stack_bounds bounds;
  onstack_rule_row rows[ROWS_MOST];
  onstack_rule rules[RULES_MOST];
  uint32_t first_row[2];
  onstack_rule_table table;
  uint8_t *go_table; /* of exactly its size */
} world;

uint32_t world_reads(void) { return world.reads; }
void world_forget_reads(void) { world.reads = 0; }

static bool is_in(uint64_t address, uint64_t low) { return address - low < CODE_BYTES; }

bool world_is_code(uint64_t address) {
  return is_in(address, NATIVE_AT) || is_in(address, BARE_AT) || is_in(address, GO_AT);
}

static bool virtual_test(const void *good, const void *bad) {
  (void)good, (void)bad;
  return true;
}

static bool virtual_read(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  world.reads++;
  fuzz_check(address % 8 == 0 && onstack_address_plausible(address));
  for (uint32_t i = 0; i < 2; i++, address += 8) {
    if (address - world.stack_at < STACK_BYTES)
      words[i] = world.stack[(address - world.stack_at) / 8];
    else if (address - onstack_thread_pointer() < TLS_BYTES)
      words[i] = world.stack_at;          /* the current g is what the input writes there */
    else if (world.kind == WORLD_HOSTILE) /* half of it leads back to the stack or to code */
      words[i] = address & 8 ? world.stack_at + (address * 0x9e3779b97f4a7c15u >> 49 & ~(uint64_t)7)
                             : NATIVE_AT + (address * 0xbf58476d1ce4e5b9u >> 43 & 0x21ffff);
    else
      return false;
  }
  return true;
}

static const onstack_reader world_virtual = {"virtual", virtual_test, virtual_read};

static void map_stack(void) {
  if (world.stack) return;
  uint8_t *memory = mmap(NULL, STACK_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) abort();
  world.stack = (uint64_t *)(void *)(memory + GUARD_BYTES);
  world.stack_at = (uint64_t)(uintptr_t)world.stack;
}

uint64_t world_number(fuzz_input *input) {
  uint64_t kind = fuzz_take(input, 1), offset = fuzz_take(input, 2);
  switch (kind % 12) {
  case 0:
    return offset;
  case 1:
  case 2:
  case 3:
    return world.stack_at + offset % STACK_BYTES;
  case 4:
    return world.stack_at + (offset % STACK_WORDS) * 8;
  case 5:
  case 6:
    return NATIVE_AT + offset;
  case 7:
    return BARE_AT + offset;
  case 8:
  case 9:
    return GO_AT + offset;
  case 10:
    return world.stack_at + STACK_BYTES - 64 + offset % 128; /* about the end */
  default:
    return fuzz_take(input, 8);
  }
}

void world_fill_stack(fuzz_input *input) {
  memset(world.stack, 0, STACK_BYTES);
  for (uint32_t i = 0; i < STACK_WORDS && input->left > 0; i++) {
    uint64_t skip = fuzz_take(input, 1);
    if (skip & 128) i += (uint32_t)(skip & 127); /* zeros */
    if (i < STACK_WORDS) world.stack[i] = world_number(input);
  }
}

static int16_t make_place(fuzz_input *input) {
  int16_t place = (int16_t)fuzz_take(input, 2);
  return place % 4 == 0 ? place : (int16_t)(place % 32);
}

static void make_rules(fuzz_input *input) {
  uint32_t rules = 1 + (uint32_t)fuzz_take(input, 1) % (RULES_MOST - 1);
  uint32_t rows = 1 + (uint32_t)fuzz_take(input, 1) % (ROWS_MOST - 1);
  uint32_t offset = 0, row = 0;
  memset(world.rules, 0, sizeof(world.rules));
  for (uint32_t i = 1; i <= rules && i < RULES_MOST; i++) {
    onstack_rule *rule = &world.rules[i];
    rule->cfa = (uint8_t)(fuzz_take(input, 1) % (ONSTACK_CFA_REGISTER + 1));
    rule->after = (uint8_t)fuzz_take(input, 1);
    rule->fp = make_place(input);
    do rule->ra = make_place(input);
    while (rule->ra == ONSTACK_AT_FP); /* never made: fuzz_cfi.c checks that */
    rule->bx = make_place(input);
    rule->cfa_offset = (int32_t)fuzz_take(input, rule->after & 1 ? 4 : 1);
  }
  for (; row < rows && offset < CODE_BYTES; row++, offset += 1 + (uint32_t)fuzz_take(input, 1) * 16)
    world.rows[row] = (onstack_rule_row){(uint16_t)offset, (uint16_t)(fuzz_take(input, 1) % (rules + 1))};
  world.first_row[0] = 0;
  world.first_row[1] = row;
  world.table = (onstack_rule_table){1, row, rules + 1, 0, world.first_row, world.rows, world.rules};
  onstack_modules.count = 1;
  onstack_modules.modules[0] =
      (onstack_module){.low = NATIVE_AT, .high = NATIVE_AT + CODE_BYTES, .base = NATIVE_AT, .table = &world.table};
}

/* Function table, then records of 44 bytes, then the bytes of pcsp. */
static void make_go_functions(fuzz_input *input, onstack_go_runtime *go) {
  uint32_t count = 1 + (uint32_t)fuzz_take(input, 1) % (GO_FUNCTIONS_MOST - 1);
  uint32_t pcsp_bytes = (uint32_t)fuzz_take(input, 1);
  uint32_t records = count * 8 + 4, pcsp = records + count * 44, size = pcsp + pcsp_bytes;
  uint8_t *bytes = calloc(1, size);
  if (!bytes) abort();
  for (uint32_t i = 0; i <= count; i++) {
    uint32_t entry = (uint32_t)(CODE_BYTES / count * i), record = records + i * 44;
    memcpy(bytes + i * 8, &entry, 4);
    if (i == count) break;
    memcpy(bytes + i * 8 + 4, &record, 4);
    uint32_t at = 1 + (uint32_t)fuzz_take(input, 1);
    memcpy(bytes + record + 16, &at, 4);
    bytes[record + 41] = (uint8_t)(fuzz_take(input, 1) & 2);
  }
  for (uint32_t i = 0; i < pcsp_bytes; i++) bytes[pcsp + i] = (uint8_t)fuzz_take(input, 1);
  free(world.go_table);
  world.go_table = bytes;
  go->functions =
      (onstack_go_functions){bytes, bytes, bytes + pcsp, bytes + size, GO_AT, count, fuzz_take(input, 1) & 1 ? 4u : 1u};
}

static void make_go(fuzz_input *input) {
  onstack_go_runtime *go = &onstack_code.go[0];
  memset(go, 0, sizeof(*go));
  go->text = (onstack_code_range){GO_AT, GO_AT + CODE_BYTES};
  make_go_functions(input, go);
  go->special_count = (uint32_t)fuzz_take(input, 1) % 16;
  for (uint32_t i = 0; i < go->special_count; i++) {
    uint64_t low = GO_AT + fuzz_take(input, 2) % (CODE_BYTES - 256);
    uint32_t bits = (uint32_t)fuzz_take(input, 1);
    go->specials[i] = (onstack_go_special){{low, low + 1 + (bits >> 4) * 16}, bits % 11, bits >> 4};
    go->span = (onstack_code_range){GO_AT, GO_AT + CODE_BYTES};
  }
  go->layout = (onstack_go_layout){.tls_g = fuzz_take(input, 2) * 8,
                                   .g_m = (uint32_t)fuzz_take(input, 1) * 8,
                                   .sched_sp = 56,
                                   .sched_pc = 64,
                                   .m_curg = 192,
                                   .known = fuzz_take(input, 1) & 1};
  onstack_code.go_count = 1;
}

void world_make(fuzz_input *input, onstack_memory *memory) {
  uint64_t bits = fuzz_take(input, 1);
  map_stack();
  world.kind = (world_kind)((bits >> 2) % WORLD_KINDS);
  onstack_code.ranges[0] = (onstack_code_range){NATIVE_AT, NATIVE_AT + CODE_BYTES};
  onstack_code.ranges[1] = (onstack_code_range){BARE_AT, BARE_AT + CODE_BYTES};
  onstack_code.ranges[2] = (onstack_code_range){GO_AT, GO_AT + CODE_BYTES};
  onstack_code.count = 3;
  make_rules(input);
  make_go(input);
  memset(&world.bounds, 0, sizeof(world.bounds));
  memset(memory, 0, sizeof(*memory));
  memory->bounds = &world.bounds;
  memory->copy_works = bits & 1;
  memory->reader = world.kind == WORLD_PROBE  ? &onstack_reader_probe
                   : world.kind == WORLD_COPY ? &onstack_reader_copy
                                              : &world_virtual;
  /* Known bounds may be larger than what can be read: guard pages on both sides. */
  uint64_t more = bits & 128 ? GUARD_BYTES : 0;
  if (bits & 2) memory->ranges[0] = (onstack_stack_range){world.stack_at - more, world.stack_at + STACK_BYTES + more};
}

void world_end(void) {
  free(world.go_table);
  world.go_table = NULL;
  onstack_code.go_count = 0;
  onstack_modules.count = 0;
}
