/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs a function's instructions and makes a rule of the state at each address. */
#include "sampler/modules/cfi.h"

#include "sampler/modules/cfi_entry.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/rules.h"

#include <stddef.h>
#include <string.h>

/*
 * What call frame information says in terms of a processor, from the file that is named after it. Each defines
 *
 *   CFI_REG_FP, _SP, _BX        DWARF numbers; CFI_REG_BX is a number that nothing has where there is no counterpart to RBX
 *                               that we need
 *   CFI_REG_COUNT               general registers, which the kernel saves in order
 *   onstack_cfi_foresee         asked at a function's first advance, with what follows and the CIE's data alignment:
 *                               where the code in front of it is known better than described, corrects the state
 *   onstack_cfi_repair          the same for a rule that was made
 */
#if defined(__x86_64__)
#include "sampler/modules/cfi_x86_64.h"
#elif defined(__aarch64__)
#include "sampler/modules/cfi_aarch64.h"
#endif

/* ---- expressions --------------------------------------------------------------------------------------------------------- */

/* The few DWARF expressions that compilers and linkers write into .eh_frame: recognised by their shape, not evaluated. */

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

/* Sets the CFA's part of the state to what the expression says; ONSTACK_CFA_LOST where its shape is unknown. */
static void cfi_expression_cfa(onstack_cfi_reader expression, cfi_state *state) {
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

/* "The saved FP is where FP points": what compilers write for functions that realign their stack. */
static bool cfi_expression_is_fp(onstack_cfi_reader expression) {
  int64_t offset;
  return cfi_match_offset(&expression, CFI_REG_FP, &offset) && expression.at == expression.end && offset == 0;
}

/* ---- instructions -------------------------------------------------------------------------------------------------------- */

#define CFI_STATES 16u /* of DW_CFA_remember_state; compilers nest one or two */

typedef struct cfi_machine {
  const onstack_cfi_common *common;
  onstack_cfi_reader reader;
  cfi_state now, initial;
  cfi_state stack[CFI_STATES];
  uint32_t depth;
  uint64_t low, location;
  void (*emit)(void *data, uint64_t address, const onstack_rule *rule);
  void *data;
} cfi_machine;

static onstack_cfi_reader cfi_take_block(cfi_machine *machine) {
  uint64_t length = onstack_cfi_uleb(&machine->reader);
  onstack_cfi_reader block = machine->reader;
  onstack_cfi_skip(&machine->reader, length);
  block.bad = machine->reader.bad;
  block.end = block.bad ? block.at : block.at + (size_t)length;
  return block;
}

static cfi_register *cfi_find_register(cfi_machine *machine, cfi_state *state, uint64_t number) {
  if (number == CFI_REG_FP) return &state->fp;
  if (number == CFI_REG_BX) return &state->bx;
  if (number == machine->common->ra_register) return &state->ra;
  return NULL;
}

static void cfi_set_register(cfi_machine *machine, uint64_t number, cfi_place place, int64_t offset) {
  cfi_register *saved = cfi_find_register(machine, &machine->now, number);
  if (saved) *saved = (cfi_register){place, offset};
}

static void cfi_restore_register(cfi_machine *machine, uint64_t number) {
  cfi_register *saved = cfi_find_register(machine, &machine->now, number);
  if (saved) *saved = *cfi_find_register(machine, &machine->initial, number);
}

/* Takes the block of a register's expression. */
static bool cfi_is_at_fp(cfi_machine *machine, uint64_t number) {
  onstack_cfi_reader block = cfi_take_block(machine);
  return number == CFI_REG_FP && cfi_expression_is_fp(block);
}

static void cfi_set_cfa_register(cfi_machine *machine, uint64_t number) {
  machine->now.cfa_kind = number == CFI_REG_SP     ? ONSTACK_CFA_SP
                          : number == CFI_REG_FP   ? ONSTACK_CFA_FP
                          : number == CFI_REG_BX   ? ONSTACK_CFA_BX
                          : number < CFI_REG_COUNT ? ONSTACK_CFA_REGISTER
                                                   : ONSTACK_CFA_LOST;
  machine->now.cfa_after = machine->now.cfa_kind == ONSTACK_CFA_REGISTER ? (uint8_t)number : 0;
}

static int16_t cfi_words(const cfi_register *saved, bool *representable) {
  if (saved->place == CFI_SAME) return ONSTACK_AT_SAME;
  if (saved->place == CFI_AT_FP) return ONSTACK_AT_FP;
  if (saved->place != CFI_AT_CFA || saved->offset % 8 != 0 || saved->offset / 8 < -16000 || saved->offset / 8 > 16000)
    *representable = false;
  return (int16_t)(saved->offset / 8);
}

/* In whole words: rules are compared and hashed as words right behind this, and a load that needs several small stores
   waits for them. That was a tenth of the time that a large library takes. */
static onstack_rule cfi_make_rule(uint8_t cfa, uint8_t after, int16_t fp, int16_t ra, int16_t bx, int32_t cfa_offset) {
  uint64_t head = (uint64_t)cfa | (uint64_t)after << 8 | (uint64_t)(uint16_t)fp << 16 | (uint64_t)(uint16_t)ra << 32 |
                  (uint64_t)(uint16_t)bx << 48;
  onstack_rule rule;
  _Static_assert(offsetof(onstack_rule, bx) == 6 && offsetof(onstack_rule, cfa_offset) == 8, "the words of a rule");
  memcpy(&rule, &head, sizeof(head));
  rule.cfa_offset = cfa_offset;
  return rule;
}

static onstack_rule cfi_bare_rule(uint8_t cfa) { return cfi_make_rule(cfa, 0, 0, 0, 0, 0); }

/*
 * The kernel's signal frame has the registers in it above the CFA, or libc tells where by expressions. A frame with that mark
 * and a return address below the CFA is that of a function which runs its callee on another stack: debuggers accept a caller
 * at a lower address for frames with the mark only, so corosensei sets it.
 */
static bool cfi_is_kernels(const cfi_machine *machine) {
  const cfi_register *ra = &machine->now.ra;
  if (!machine->common->signal_frame || (ONSTACK_ARCH_LINK_REGISTER && ra->place == CFI_SAME)) return false;
  return ra->place != CFI_AT_CFA || ra->offset >= 0;
}

static onstack_rule cfi_to_rule(const cfi_machine *machine) {
  const cfi_state *state = &machine->now;
  bool good = true, bx_good = true;
  uint8_t kind = state->cfa_kind;
  if (cfi_is_kernels(machine)) return cfi_bare_rule(ONSTACK_CFA_SIGNAL);
  if (state->ra.place == CFI_UNDEFINED) return cfi_bare_rule(ONSTACK_CFA_ROOT);
  if (kind == ONSTACK_CFA_NONE || kind == ONSTACK_CFA_LOST) return cfi_bare_rule(ONSTACK_CFA_LOST);
  if (state->cfa_offset < INT32_MIN || state->cfa_offset > INT32_MAX) return cfi_bare_rule(ONSTACK_CFA_LOST);
  const bool has_after = kind == ONSTACK_CFA_DEREF_SP || kind == ONSTACK_CFA_DEREF_FP || kind == ONSTACK_CFA_REGISTER;
  uint8_t after = has_after ? state->cfa_after : 0;
  int16_t ra = cfi_words(&state->ra, &good);
  /* A frame pointer that cannot be recovered is only lost, not the frame: its value is checked when it is used. */
  cfi_register saved = state->fp;
  if (saved.place == CFI_UNDEFINED || saved.place == CFI_UNKNOWN) saved.place = CFI_SAME;
  int16_t fp = cfi_words(&saved, &good), bx = cfi_words(&state->bx, &bx_good);
  if (!bx_good) bx = ONSTACK_AT_SAME;
  if (!ONSTACK_ARCH_LINK_REGISTER && ra == ONSTACK_AT_SAME) good = false;
  if (!good || ra == ONSTACK_AT_FP) return cfi_bare_rule(ONSTACK_CFA_LOST);
  onstack_rule rule = cfi_make_rule(kind, after, fp, ra, bx, (int32_t)state->cfa_offset);
  onstack_cfi_repair(&rule);
  return rule;
}

static void cfi_advance(cfi_machine *machine, uint64_t delta) {
  if (machine->location == machine->low) onstack_cfi_foresee(&machine->now, &machine->reader, machine->common->data_align);
  onstack_rule rule = cfi_to_rule(machine);
  machine->emit(machine->data, machine->location, &rule);
  machine->location += delta * machine->common->code_align;
}

/* Opcodes with operands of their own (DWARF 5, 6.4.2, and GNU's). False: unknown. */
static bool cfi_step_extended(cfi_machine *machine, uint64_t opcode) {
  onstack_cfi_reader *reader = &machine->reader;
  int64_t align = machine->common->data_align;
  uint64_t number;
  switch (opcode) {
  case DW_CFA_nop:
    return true;
  case DW_CFA_set_loc:
    cfi_advance(machine, 0);
    machine->location = onstack_cfi_pointer(reader, machine->common->pointer_encoding);
    return true;
  case DW_CFA_advance_loc1:
    cfi_advance(machine, onstack_cfi_byte(reader));
    return true;
  case DW_CFA_advance_loc2:
    cfi_advance(machine, onstack_cfi_fixed(reader, 2));
    return true;
  case DW_CFA_advance_loc4:
    cfi_advance(machine, onstack_cfi_fixed(reader, 4));
    return true;
  case DW_CFA_offset_extended:
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_AT_CFA, (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff) * align);
    return true;
  case DW_CFA_restore_extended:
    cfi_restore_register(machine, onstack_cfi_uleb(reader));
    return true;
  case DW_CFA_undefined:
    cfi_set_register(machine, onstack_cfi_uleb(reader), CFI_UNDEFINED, 0);
    return true;
  case DW_CFA_same_value:
    cfi_set_register(machine, onstack_cfi_uleb(reader), CFI_SAME, 0);
    return true;
  case DW_CFA_register:
    number = onstack_cfi_uleb(reader);
    onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case DW_CFA_remember_state:
    if (machine->depth == CFI_STATES) return false;
    machine->stack[machine->depth++] = machine->now;
    return true;
  case DW_CFA_restore_state:
    if (machine->depth == 0) return false;
    machine->now = machine->stack[--machine->depth];
    return true;
  case DW_CFA_def_cfa:
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    machine->now.cfa_offset = (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff);
    return true;
  case DW_CFA_def_cfa_register:
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    return true;
  case DW_CFA_def_cfa_offset:
    machine->now.cfa_offset = (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff);
    return true;
  case DW_CFA_def_cfa_expression:
    cfi_expression_cfa(cfi_take_block(machine), &machine->now);
    return true;
  case DW_CFA_expression:
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, cfi_is_at_fp(machine, number) ? CFI_AT_FP : CFI_UNKNOWN, 0);
    return true;
  case DW_CFA_offset_extended_sf:
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_AT_CFA, (int32_t)onstack_cfi_sleb(reader) * align);
    return true;
  case DW_CFA_def_cfa_sf:
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    machine->now.cfa_offset = (int32_t)onstack_cfi_sleb(reader) * align;
    return true;
  case DW_CFA_def_cfa_offset_sf:
    machine->now.cfa_offset = (int32_t)onstack_cfi_sleb(reader) * align;
    return true;
  case DW_CFA_val_offset: /* the register's value, not its place */
  case DW_CFA_val_offset_sf:
    number = onstack_cfi_uleb(reader);
    onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case DW_CFA_val_expression:
    number = onstack_cfi_uleb(reader);
    cfi_take_block(machine);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case DW_CFA_AARCH64_negate_ra_state: /* return addresses are stripped always */
    return true;
  case DW_CFA_GNU_args_size:
    onstack_cfi_uleb(reader);
    return true;
  case DW_CFA_GNU_negative_offset_extended:
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_AT_CFA, -(int64_t)(onstack_cfi_uleb(reader) & 0xffffffff) * align);
    return true;
  default:
    return false;
  }
}

/* Runs instructions from `begin` to `end`. False: something that we do not know, the state from here on is unknown. */
static bool cfi_run_part(cfi_machine *machine, size_t begin, size_t end) {
  onstack_cfi_reader *reader = &machine->reader;
  reader->at = begin;
  reader->end = end;
  while (!reader->bad && reader->at < reader->end) {
    uint64_t byte = onstack_cfi_byte(reader);
    switch (byte & DW_CFA_OPCODE) {
    case DW_CFA_advance_loc:
      cfi_advance(machine, byte & DW_CFA_OPERAND);
      break;
    case DW_CFA_offset:
      cfi_set_register(machine, byte & DW_CFA_OPERAND, CFI_AT_CFA,
                       (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff) * machine->common->data_align);
      break;
    case DW_CFA_restore:
      cfi_restore_register(machine, byte & DW_CFA_OPERAND);
      break;
    default:
      if (!cfi_step_extended(machine, byte)) return false;
    }
  }
  return !reader->bad;
}

/* The CIE's instructions only set up the state: their emissions go nowhere. */
static void cfi_emit_nothing(void *data, uint64_t address, const onstack_rule *rule) {
  (void)data;
  (void)address;
  (void)rule;
}

/* Once for all functions in a row that share them. */
static void cfi_run_common(cfi_machine *machine, onstack_cfi_common *common) {
  memset(&machine->now, 0, sizeof(machine->now));
  machine->initial = machine->now;
  machine->emit = cfi_emit_nothing;
  common->good = cfi_run_part(machine, common->instructions, common->end);
  common->initial = machine->now;
  common->ran = true;
}

void onstack_cfi_run(onstack_cfi_section *section, const onstack_cfi_function *function,
                     void (*emit)(void *data, uint64_t address, const onstack_rule *rule), void *data) {
  cfi_machine machine; /* not all zeros: the stack of states is large, and written before it is read */
  onstack_cfi_reader reader;
  const onstack_rule lost = cfi_bare_rule(ONSTACK_CFA_LOST);
  if (!onstack_cfi_open(section, function->entry, &reader)) {
    emit(data, function->low, &lost);
    return;
  }
  machine.common = &section->common;
  machine.reader = reader;
  machine.data = data;
  machine.depth = 0;
  machine.low = machine.location = function->low;
  if (!section->common.ran) cfi_run_common(&machine, &section->common);
  machine.now = machine.initial = section->common.initial;
  machine.emit = emit;
  machine.depth = 0;
  machine.location = function->low;
  const bool good = section->common.good && cfi_run_part(&machine, reader.at, reader.end);
  onstack_rule rule = good ? cfi_to_rule(&machine) : lost;
  emit(data, machine.location, &rule);
}
