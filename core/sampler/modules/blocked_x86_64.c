/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads code by copies: a library may be unmapped at any instant. Opcodes: Intel SDM volume 2, appendix A. */
#include "sampler/modules/blocked.h"
#include "sampler/modules/blocked_x86_64.h"

#if defined(__x86_64__)

#include "platform/defs.h"
#include "platform/process.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/unwinder.h"

#include <string.h>

#define PROLOGUE_ROWS 4096u /* that are looked at, backwards */
#define PROLOGUE_BYTES 256u
#define PROLOGUE_LONGEST 16u /* an instruction */

/* ---- by the rules ---- */

typedef struct prologue_row {
  const onstack_rule_table *table;
  uint32_t chunk, index; /* of the row that holds `offset`, and its chunk */
} prologue_row;

/* A chunk's rows say the low 16 bits, and a chunk is shorter than these. */
static uint64_t prologue_row_offset(const prologue_row *row) {
  const uint64_t chunk = (uint64_t)row->chunk << ONSTACK_RULE_CHUNK_BITS;
  return (chunk & ~(uint64_t)0xffff) | row->table->rows[row->index].offset;
}

static const onstack_rule *prologue_row_rule(const prologue_row *row) {
  return &row->table->rules[row->table->rows[row->index].rule];
}

static bool prologue_row_before(prologue_row *row) {
  if (row->index == 0) return false;
  row->index--;
  while (row->chunk > 0 && row->index < row->table->first_row[row->chunk]) row->chunk--;
  return true;
}

/* The row that holds an offset for which there is a rule. */
static bool prologue_row_at(const onstack_rule_table *table, uint64_t offset, prologue_row *row) {
  const uint64_t chunk = offset >> ONSTACK_RULE_CHUNK_BITS;
  if (chunk >= table->chunk_count) return false;
  *row = (prologue_row){table, (uint32_t)chunk, table->first_row[chunk + 1]};
  while (prologue_row_before(row))
    if (prologue_row_offset(row) <= offset) return true;
  return false;
}

static bool prologue_is_entered(const onstack_rule *rule) { return rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == 8; }

static bool prologue_has_pushed(const onstack_rule *rule) {
  return rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == 16 && rule->fp == -2;
}

bool onstack_prologue_find(const onstack_module *module, uint64_t address, onstack_prologue *prologue) {
  prologue_row row;
  if (!module->table || !prologue_row_at(module->table, address - module->base, &row)) return false;
  for (uint32_t i = 0; i < PROLOGUE_ROWS; i++) {
    const onstack_rule *rule = prologue_row_rule(&row);
    const uint64_t framed = prologue_row_offset(&row);
    if (!prologue_row_before(&row)) return false;
    if (rule->cfa != ONSTACK_CFA_FP || !prologue_has_pushed(prologue_row_rule(&row))) continue;
    const uint64_t pushed = prologue_row_offset(&row);
    if (!prologue_row_before(&row) || !prologue_is_entered(prologue_row_rule(&row))) return false;
    *prologue =
        (onstack_prologue){module->base + prologue_row_offset(&row), module->base + pushed - 1, module->base + framed};
    return true;
  }
  return false;
}

/* ---- by the instructions ---- */

/* Bytes behind the opcode of an instruction with ModRM. */
static size_t prologue_operand(const uint8_t *modrm) {
  const uint8_t mod = *modrm >> 6;
  size_t length = 1;
  if (mod == 3) return length;
  const bool scaled = (*modrm & 7) == 4;
  const uint8_t base = scaled ? modrm[1] & 7 : *modrm & 7;
  if (scaled) length++;
  if (mod == 1) return length + 1;
  return mod == 2 || base == 5 ? length + 4 : length;
}

/* Of an immediate behind an operand; with `leads` an instruction that goes elsewhere, which ends a prologue. */
typedef struct prologue_form {
  bool leads, operand;
  size_t immediate;
} prologue_form;

static prologue_form prologue_form_0f(uint8_t op) {
  switch (op) {
  case 0x05: /* syscall, ud2, sysenter, and opcodes of three bytes */
  case 0x0b:
  case 0x34:
  case 0x38:
  case 0x3a:
    return (prologue_form){.leads = true};
  case 0xa2: /* cpuid, rdtsc */
  case 0x31:
    return (prologue_form){0};
  case 0x70: /* with one byte more */
  case 0xc6:
  case 0xba:
  case 0xc2:
  case 0xa4:
  case 0xac:
    return (prologue_form){.operand = true, .immediate = 1};
  default:
    if ((op & 0xf0) == 0x80) return (prologue_form){.leads = true}; /* jcc */
    return (prologue_form){.operand = true};
  }
}

/* `half`: operands of 16 bits. `modrm`: of an instruction that has one. */
static prologue_form prologue_form_of(uint8_t op, uint8_t modrm, bool wide, bool half) {
  const size_t word = half ? 2 : 4;
  if ((op & 0xf0) == 0x50 || op == 0x90 || op == 0x98 || op == 0x99) return (prologue_form){0};
  if ((op & 0xf8) == 0xb8) return (prologue_form){.immediate = wide ? 8 : word};
  if ((op & 0xf8) == 0xb0 || op == 0x6a || op == 0xa8) return (prologue_form){.immediate = 1};
  if (op == 0x68 || op == 0xa9) return (prologue_form){.immediate = word};
  if (op < 0x40 && (op & 7) == 4) return (prologue_form){.immediate = 1};
  if (op < 0x40 && (op & 7) == 5) return (prologue_form){.immediate = word};
  if (op < 0x40 && (op & 7) < 4) return (prologue_form){.operand = true};
  if (op == 0x80 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0x6b)
    return (prologue_form){.operand = true, .immediate = 1};
  if (op == 0x81 || op == 0xc7 || op == 0x69) return (prologue_form){.operand = true, .immediate = word};
  if (op == 0xf6) return (prologue_form){.operand = true, .immediate = (modrm & 0x38) <= 8 ? 1 : 0};
  if (op == 0xf7) return (prologue_form){.operand = true, .immediate = (modrm & 0x38) <= 8 ? word : 0};
  if (op == 0xff) return (prologue_form){.leads = (modrm & 0x38) > 8 && (modrm & 0x38) != 0x30, .operand = true};
  if (op == 0x63 || (op >= 0x84 && op <= 0x8d) || op == 0xd1 || op == 0xd3) return (prologue_form){.operand = true};
  return (prologue_form){.leads = true};
}

/* The length of an instruction that compilers put into prologues; 0: another one, or one that leads elsewhere. */
static size_t prologue_length(const uint8_t *code) {
  const uint8_t *at = code;
  bool wide = false, half = false;
  for (size_t i = 0; i < 4 && (*at == 0x66 || *at == 0xf2 || *at == 0xf3); i++) half |= *at++ == 0x66;
  if ((*at & 0xf0) == 0x40) wide = (*at++ & 8) != 0;
  const uint8_t op = *at++;
  const prologue_form form = op == 0x0f ? prologue_form_0f(*at++) : prologue_form_of(op, *at, wide, half);
  if (form.leads) return 0;
  return (size_t)(at - code) + (form.operand ? prologue_operand(at) : 0) + form.immediate;
}

#define PROLOGUE_UNKNOWN INT64_MIN

static int32_t prologue_int32(const uint8_t *bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

/* By how much an instruction moves SP down; PROLOGUE_UNKNOWN: nobody can tell. */
static int64_t prologue_moves(const uint8_t *code) {
  const bool extended = code[0] == 0x41;
  const uint8_t op = extended ? code[1] : code[0];
  if ((op & 0xf8) == 0x50) return 8;                                            /* push of a register */
  if ((op & 0xf8) == 0x58 || op == 0x68 || op == 0x6a) return PROLOGUE_UNKNOWN; /* pop; push of a number */
  if (code[0] == 0x48 && (code[1] == 0x83 || code[1] == 0x81)) {
    const int64_t amount = code[1] == 0x83 ? (int8_t)code[3] : prologue_int32(code + 3);
    if (code[2] == 0xec) return amount;           /* sub $n,%rsp */
    if (code[2] == 0xc4) return -amount;          /* add $n,%rsp */
    if (code[2] == 0xe4) return PROLOGUE_UNKNOWN; /* and $n,%rsp */
  }
  if ((code[0] & 0xf8) == 0x48 && code[1] == 0x29 && (code[2] & 0xc7) == 0xc4) return PROLOGUE_UNKNOWN; /* sub %reg,%rsp */
  return 0;
}

int64_t onstack_prologue_depth(const onstack_prologue *prologue, uint64_t address) {
  uint8_t code[PROLOGUE_BYTES + PROLOGUE_LONGEST] = {0};
  int64_t depth = 0;
  const size_t got = onstack_process_memory_copy(prologue->framed, code, PROLOGUE_BYTES);
  for (size_t at = 0; at + PROLOGUE_LONGEST <= got && prologue->framed + at < address;) {
    const size_t length = prologue_length(code + at);
    if (length == 0) break;
    const int64_t moves = prologue_moves(code + at);
    if (moves == PROLOGUE_UNKNOWN) return -1;
    depth += moves;
    at += length;
  }
  return depth;
}

/*
 * Only the frame pointer is missing, and mostly a frame gives it back before a rule needs it. Else it follows from the CFA of
 * the first frame that is found by it: all frames below keep the register.
 *
 *   by prologue   behind push %rbp; mov %rsp,%rbp come pushes and sub $n,%rsp among other instructions; they say how far
 *                 below the CFA SP is at a call
 *   by search     the first word above SP that lies behind a direct call to that very function (a frame of variable size)
 *   by Go         its table says how far SP is from the return address, and behind a prologue the register is the frame's
 *
 * The first two are believed only where a call ends before the return address, and a direct one leads to the function's
 * beginning; a call by way of the PLT only where the prologue says so.
 */

#define BLOCKED_DEPTH 64u          /* frames that may keep the register */
#define BLOCKED_SEARCH_WORDS 4096u /* above SP */
#define BLOCKED_BLOCK 64u          /* words that are copied at once */

typedef struct blocked_frame {
  uint64_t pc, sp;
  bool called; /* pc is a return address */
} blocked_frame;

static bool blocked_word(uint64_t address, uint64_t *word) {
  uint64_t words[2];
  if (address & 7 || !onstack_address_plausible(address)) return false;
  if (!onstack_memory_copy_pair(address, words)) return false;
  *word = words[0];
  return true;
}

/* Whether a call ends there; *target: where a direct one leads, or 0. */
static bool blocked_follows_call(uint64_t return_address, uint64_t *target) {
  uint8_t code[16];
  onstack_code_range last = {0, 0};
  *target = 0;
  if (!onstack_address_plausible(return_address) || !onstack_code_is_executable(return_address - 1, &last)) return false;
  if (!onstack_memory_copy_pair(return_address - ONSTACK_CALL_BYTES, (uint64_t *)(void *)code)) return false;
  if (!onstack_call_ends(code)) return false;
  if (code[3] == 0xe8) {
    int32_t relative =
        (int32_t)((uint32_t)code[4] | (uint32_t)code[5] << 8 | (uint32_t)code[6] << 16 | (uint32_t)code[7] << 24);
    *target = return_address + (uint64_t)(int64_t)relative;
  }
  return true;
}

typedef enum blocked_proof {
  BLOCKED_NO_FRAME,
  BLOCKED_AFTER_OTHER, /* a direct call of something else: of the PLT, or of a part that jumps here */
  BLOCKED_AFTER_ANY,   /* a call by a pointer */
  BLOCKED_AFTER_DIRECT /* a direct call of this function */
} blocked_proof;

static blocked_proof blocked_prove(const onstack_prologue *prologue, uint64_t return_address) {
  uint64_t target;
  if (!blocked_follows_call(return_address, &target)) return BLOCKED_NO_FRAME;
  if (target == 0) return BLOCKED_AFTER_ANY;
  return target >= prologue->entry_low && target <= prologue->entry_high ? BLOCKED_AFTER_DIRECT : BLOCKED_AFTER_OTHER;
}

/* The CFA of the frame whose return address is the first above SP that a direct call of the function precedes; 0: there is
   none. Only words that could be code cost a look. */
static uint64_t blocked_search(const onstack_prologue *prologue, uint64_t sp) {
  uint64_t words[BLOCKED_BLOCK];
  for (uint64_t at = sp + 8; at < sp + BLOCKED_SEARCH_WORDS * 8; at += sizeof(words)) {
    uint64_t addresses[ONSTACK_COPY_MANY];
    uint32_t got = 0;
    while (got < BLOCKED_BLOCK) {
      const uint32_t wanted = BLOCKED_BLOCK - got < ONSTACK_COPY_MANY ? BLOCKED_BLOCK - got : ONSTACK_COPY_MANY;
      for (uint32_t i = 0; i < wanted; i++) addresses[i] = at + (uint64_t)(got + i) * 8;
      const uint32_t copied = onstack_memory_copy_many(addresses, wanted, words + got);
      got += copied;
      if (copied < wanted) break;
    }
    for (uint32_t i = 0; i < got; i++)
      if (blocked_prove(prologue, words[i]) == BLOCKED_AFTER_DIRECT) return at + (uint64_t)i * 8 + 8;
    if (got < BLOCKED_BLOCK) return 0;
  }
  return 0;
}

/* The CFA of a function whose rule is by the frame pointer; 0: not known. */
static uint64_t blocked_cfa(const onstack_module *module, uint64_t address, uint64_t sp) {
  onstack_prologue prologue;
  uint64_t word;
  if (!onstack_prologue_find(module, address, &prologue)) return 0;
  const int64_t depth = onstack_prologue_depth(&prologue, address);
  const uint64_t by_prologue = sp + (uint64_t)depth + 16;
  const bool readable = depth >= 0 && blocked_word(by_prologue - 8, &word);
  const blocked_proof proof = readable ? blocked_prove(&prologue, word) : BLOCKED_NO_FRAME;
  if (proof >= BLOCKED_AFTER_ANY) return by_prologue;
  const uint64_t by_search = blocked_search(&prologue, sp);
  if (by_search != 0) return by_search;
  return proof == BLOCKED_AFTER_OTHER ? by_prologue : 0;
}

typedef enum blocked_step { BLOCKED_ON, BLOCKED_DONE } blocked_step;

/* A frame of Go. Behind its prologue the register is the function's own. */
static blocked_step blocked_step_go(const onstack_go_runtime *go, uint64_t address, blocked_frame *frame, uint64_t *fp) {
  onstack_go_frame of;
  uint64_t word;
  const uint32_t kind = onstack_code_go_kind(go, address);
  if (kind == ONSTACK_GO_ROOT || kind == ONSTACK_GO_LEAVES || kind == ONSTACK_GO_BY_G) return BLOCKED_DONE;
  if (!onstack_go_frame_at(go, address, &of)) return BLOCKED_DONE;
  const uint64_t cfa = frame->sp + (uint64_t)of.depth + 8;
  if (of.depth >= 8) {
    *fp = cfa - 16;
    return BLOCKED_DONE;
  }
  if (!blocked_word(cfa - 8, &word)) return BLOCKED_DONE;
  *frame = (blocked_frame){word, cfa, true};
  return BLOCKED_ON;
}

static blocked_step blocked_step_native(onstack_module *module, uint64_t address, blocked_frame *frame, uint64_t *fp) {
  const onstack_rule *rule = onstack_rules_find(address, module);
  uint64_t cfa, word;
  if (!rule) return BLOCKED_DONE;
  switch (rule->cfa) {
  case ONSTACK_CFA_SP:
    cfa = frame->sp + (uint64_t)(int64_t)rule->cfa_offset;
    break;
  case ONSTACK_CFA_PLT:
    cfa = frame->sp + ((frame->pc & 15) >= (uint64_t)(int64_t)rule->cfa_offset ? 16 : 8);
    break;
  case ONSTACK_CFA_FP:
    cfa = blocked_cfa(module, address, frame->sp);
    if (cfa != 0) *fp = cfa - (uint64_t)(int64_t)rule->cfa_offset;
    return BLOCKED_DONE;
  default:
    return BLOCKED_DONE;
  }
  if (rule->fp != ONSTACK_AT_SAME || rule->ra == ONSTACK_AT_SAME) return BLOCKED_DONE; /* it gives the register back */
  const uint64_t after = cfa + (uint64_t)((int64_t)(rule->ra + 1) * 8);
  if (!blocked_word(after - 8, &word)) return BLOCKED_DONE;
  *frame = (blocked_frame){word, after, true};
  return BLOCKED_ON;
}

/* The register as it is at pc, as far as a walk needs it. */
static uint64_t blocked_frame_pointer(uint64_t pc, uint64_t sp) {
  blocked_frame frame = {pc, sp, false};
  onstack_module module = {.low = 0};
  uint64_t fp = ONSTACK_UNKNOWN_REGISTER;
  for (uint32_t depth = 0; depth < BLOCKED_DEPTH; depth++) {
    const uint64_t address = frame.called ? frame.pc - 1 : frame.pc;
    const onstack_go_runtime *go = onstack_code_find_go(address);
    const blocked_step step =
        go ? blocked_step_go(go, address, &frame, &fp) : blocked_step_native(&module, address, &frame, &fp);
    if (step == BLOCKED_DONE) break;
  }
  return fp;
}

void onstack_blocked_registers(uint64_t pc, uint64_t sp, onstack_registers *registers) {
  *registers = (onstack_registers){.pc = pc, .sp = sp, .fp = blocked_frame_pointer(pc, sp)};
}

#endif
