/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads code by copies: a library may be unmapped at any instant. Opcodes: Intel SDM volume 2, appendix A. */
#include "sampler/modules/prologue_x86_64.h"

#if defined(__x86_64__)

#include "platform/process.h"

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

#endif
