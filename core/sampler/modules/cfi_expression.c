/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/cfi_expression.h"

#include "sampler/modules/cfi_arch.h"
#include "sampler/modules/dwarf.h"
#include "sampler/unwind/rules.h"

/* x86_64 .plt: rsp + 8 + ((rip & 15) >= N) * 8, the one shape that linkers write. */
static bool cfi_match_plt(const uint8_t *bytes, uint64_t length, int64_t *threshold) {
  static const uint8_t shape[] = {DW_OP_breg0 + 7, 8,        DW_OP_breg0 + 16, 0,         DW_OP_lit0 + 15, DW_OP_and,
                                  DW_OP_lit0,      DW_OP_ge, DW_OP_lit0 + 3,   DW_OP_shl, DW_OP_plus};
  if (length != sizeof(shape) || bytes[6] < DW_OP_lit0 || bytes[6] > DW_OP_lit0 + 15) return false;
  for (size_t i = 0; i < sizeof(shape); i++)
    if (i != 6 && bytes[i] != shape[i]) return false;
  *threshold = bytes[6] - DW_OP_lit0;
  return true;
}

/* The expression `register + offset`. libgcc and gdb read DW_OP_reg as `register + 0`, and wasmtime's fibers write that. */
static bool cfi_match_offset(onstack_cfi_reader *expression, uint32_t number, int64_t *offset) {
  const uint64_t operation = onstack_cfi_byte(expression);
  *offset = 0;
  if (operation == DW_OP_reg0 + number) return !expression->bad;
  if (operation != DW_OP_breg0 + number) return false;
  *offset = onstack_cfi_sleb(expression);
  return !expression->bad;
}

/* `+ n words` in either form: as one operation, or as a small number and an addition (SBCL). */
static bool cfi_match_words(onstack_cfi_reader *expression, uint8_t *words) {
  const uint64_t operation = onstack_cfi_byte(expression);
  uint64_t bytes;
  if (operation == DW_OP_plus_uconst) {
    bytes = onstack_cfi_uleb(expression);
  } else {
    bytes = operation - DW_OP_lit0;
    if (bytes > 31 || onstack_cfi_byte(expression) != DW_OP_plus) return false;
  }
  if (bytes % 8 != 0 || bytes / 8 > UINT8_MAX) return false;
  *words = (uint8_t)(bytes / 8);
  return true;
}

/* `*(register + offset)`, with or without `+ n words` behind it. */
static bool cfi_match_deref(onstack_cfi_reader expression, uint32_t number, int64_t *offset, uint8_t *after) {
  *after = 0;
  if (!cfi_match_offset(&expression, number, offset) || onstack_cfi_byte(&expression) != DW_OP_deref) return false;
  if (expression.at < expression.end && !cfi_match_words(&expression, after)) return false;
  return !expression.bad && expression.at == expression.end;
}

void onstack_cfi_expression_cfa(onstack_cfi_reader expression, cfi_state *state) {
  size_t length = expression.end - expression.at;
  state->cfa_kind = ONSTACK_CFA_LOST;
  if (expression.bad) return;
  if (cfi_match_plt(expression.base + expression.at, length, &state->cfa_offset))
    state->cfa_kind = ONSTACK_CFA_PLT;
  else if (cfi_match_deref(expression, CFI_REG_FP, &state->cfa_offset, &state->cfa_after))
    state->cfa_kind = ONSTACK_CFA_DEREF_FP;
  else if (cfi_match_deref(expression, CFI_REG_SP, &state->cfa_offset, &state->cfa_after))
    state->cfa_kind = ONSTACK_CFA_DEREF_SP;
}

bool onstack_cfi_expression_is_fp(onstack_cfi_reader expression) {
  int64_t offset;
  return cfi_match_offset(&expression, CFI_REG_FP, &offset) && expression.at == expression.end && offset == 0;
}
