/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/cfi.h"

#include "control/cfi_reader.h"

#include <string.h>

#if defined(__x86_64__) /* System V ABI AMD64, figure 3.36 */
#define CFI_REG_FP 6u
#define CFI_REG_SP 7u
#define CFI_REG_BX 3u
#define CFI_REG_COUNT 16u /* general registers, which the kernel saves in order */
#else /* DWARF for the Arm 64-bit architecture, 4.1; there is no counterpart to RBX that we need */
#define CFI_REG_FP 29u
#define CFI_REG_SP 31u
#define CFI_REG_LR 30u
#define CFI_REG_BX 0xfffffffeu
#define CFI_REG_COUNT 31u
#endif

#define CFI_STATES 16u /* of DW_CFA_remember_state; compilers nest one or two */

/* Where a register of the caller is. */
typedef enum cfi_place { CFI_SAME, CFI_AT_CFA, CFI_AT_FP, CFI_UNDEFINED, CFI_UNKNOWN } cfi_place;

typedef struct cfi_register {
  cfi_place place;
  int64_t offset; /* CFI_AT_CFA */
} cfi_register;

typedef struct cfi_state {
  uint8_t cfa_kind; /* ONSTACK_CFA_*; LOST: not representable */
  uint8_t cfa_after;
  int64_t cfa_offset;
  cfi_register fp, ra, bx;
} cfi_state;

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

static bool cfi_parse_augmentation(onstack_cfi_reader *reader, const char *text, onstack_cfi_common *common) {
  uint64_t length = onstack_cfi_uleb(reader);
  size_t end = reader->at + (size_t)length;
  if (reader->bad || length > reader->end - reader->at) return false;
  for (text++; *text; text++) {
    if (*text == 'R') {
      common->pointer_encoding = (uint8_t)onstack_cfi_byte(reader);
    } else if (*text == 'P') {
      uint8_t encoding = (uint8_t)onstack_cfi_byte(reader);
      onstack_cfi_pointer(reader, encoding & 0x7f); /* the personality routine, maybe indirect: only skipped */
    } else if (*text == 'L') {
      onstack_cfi_byte(reader);
    } else if (*text == 'S') {
      common->signal_frame = true;
    } else if (*text != 'B') { /* 'B': aarch64 signs with the other key; addresses are stripped anyway */
      break;                   /* unknown letters end the part that can be understood; the length skips them */
    }
  }
  reader->at = end;
  return !reader->bad;
}

/* A CIE at `offset`. */
static bool cfi_parse_common(const onstack_cfi_section *section, uint64_t offset, onstack_cfi_common *common) {
  if (offset >= section->size) return false;
  onstack_cfi_reader reader = {section->bytes, (size_t)offset, section->size, section->address, false};
  uint64_t length = onstack_cfi_fixed(&reader, 4);
  if (length == 0xffffffff) length = onstack_cfi_fixed(&reader, 8);
  if (reader.bad || length > reader.end - reader.at) return false;
  reader.end = reader.at + (size_t)length;
  if (onstack_cfi_fixed(&reader, 4) != 0) return false; /* not a CIE */
  uint64_t version = onstack_cfi_byte(&reader);
  const char *text = (const char *)section->bytes + reader.at;
  if (reader.bad || (version != 1 && version != 3) || !memchr(text, 0, reader.end - reader.at)) return false;
  onstack_cfi_skip(&reader, strlen(text) + 1);
  memset(common, 0, sizeof(*common));
  common->code_align = onstack_cfi_uleb(&reader);
  common->data_align = onstack_cfi_sleb(&reader);
  common->ra_register = version == 1 ? onstack_cfi_byte(&reader) : onstack_cfi_uleb(&reader);
  common->has_augmentation = text[0] == 'z';
  if (common->has_augmentation) {
    if (!cfi_parse_augmentation(&reader, text, common)) return false;
  } else if (text[0] != 0) {
    return false;
  }
  common->instructions = reader.at;
  common->end = reader.end;
  return !reader.bad && common->code_align <= 64 && common->data_align >= -64 && common->data_align <= 64;
}

/* Makes section->common the CIE at `offset`. */
static bool cfi_take_common(onstack_cfi_section *section, uint64_t offset) {
  if (section->common_good && section->common_offset == offset) return true;
  section->common_good = cfi_parse_common(section, offset, &section->common);
  section->common_offset = offset;
  return section->common_good;
}

/* An FDE's bounds; the reader is left at its instructions, and section->common is its CIE. */
static bool cfi_parse_function(onstack_cfi_section *section, uint64_t offset, uint64_t common_offset,
                               onstack_cfi_reader *reader, onstack_cfi_function *function) {
  if (!cfi_take_common(section, common_offset)) return false;
  const onstack_cfi_common *common = &section->common;
  function->entry = (uint32_t)offset;
  function->low = onstack_cfi_pointer(reader, common->pointer_encoding);
  uint64_t length = onstack_cfi_pointer(reader, common->pointer_encoding & 0x0f);
  function->high = function->low + length;
  if (common->has_augmentation) onstack_cfi_skip(reader, onstack_cfi_uleb(reader));
  return !reader->bad && length != 0 && function->high > function->low;
}

/* An entry's bounds and kind. False at the terminator and where the section is malformed. */
static bool cfi_open_entry(const onstack_cfi_section *section, size_t offset, onstack_cfi_reader *reader,
                           uint64_t *common_offset, bool *is_function) {
  *reader = (onstack_cfi_reader){section->bytes, offset, section->size, section->address, false};
  uint64_t length = onstack_cfi_fixed(reader, 4);
  if (length == 0xffffffff) length = onstack_cfi_fixed(reader, 8);
  if (reader->bad || length == 0 || length > reader->end - reader->at) return false;
  reader->end = reader->at + (size_t)length;
  size_t place = reader->at;
  uint64_t id = onstack_cfi_fixed(reader, 4);
  *is_function = id != 0;
  *common_offset = place - id; /* wraps when hostile; cfi_parse_common checks it */
  return !reader->bad;
}

void onstack_cfi_each(onstack_cfi_section *section,
                      bool (*visit)(void *data, const onstack_cfi_function *function), void *data) {
  onstack_cfi_reader reader;
  onstack_cfi_function function;
  uint64_t common_offset;
  bool is_function;
  for (size_t offset = 0; offset < section->size && offset <= UINT32_MAX; offset = reader.end) {
    if (!cfi_open_entry(section, offset, &reader, &common_offset, &is_function)) return;
    size_t end = reader.end;
    if (is_function && cfi_parse_function(section, offset, common_offset, &reader, &function) &&
        !visit(data, &function))
      return;
    reader.end = end;
  }
}

/* x86_64 .plt: rsp + 8 + ((rip & 15) >= N) * 8, the one shape that linkers write. */
static bool cfi_match_plt(const uint8_t *bytes, uint64_t length, int64_t *threshold) {
  static const uint8_t shape[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};
  if (length != sizeof(shape) || bytes[6] < 0x30 || bytes[6] > 0x3f) return false;
  for (size_t i = 0; i < sizeof(shape); i++)
    if (i != 6 && bytes[i] != shape[i]) return false;
  *threshold = bytes[6] - 0x30;
  return true;
}

#define CFI_OP_BREG0 0x70u /* DW_OP_breg0: the value of a register plus an offset */
#define CFI_OP_DEREF 0x06u
#define CFI_OP_PLUS_UCONST 0x23u

/* The expression `register + offset`. */
static bool cfi_match_offset(onstack_cfi_reader *expression, uint32_t number, int64_t *offset) {
  if (onstack_cfi_fixed(expression, 1) != CFI_OP_BREG0 + number) return false;
  *offset = onstack_cfi_sleb(expression);
  return !expression->bad;
}

/* `*(register + offset)`, with or without `+ n words` behind it. */
static bool cfi_match_deref(onstack_cfi_reader expression, uint32_t number, int64_t *offset, uint8_t *after) {
  *after = 0;
  if (!cfi_match_offset(&expression, number, offset) || onstack_cfi_byte(&expression) != CFI_OP_DEREF) return false;
  if (expression.at < expression.end) {
    if (onstack_cfi_byte(&expression) != CFI_OP_PLUS_UCONST) return false;
    uint64_t bytes = onstack_cfi_uleb(&expression);
    if (bytes % 8 != 0 || bytes / 8 > UINT8_MAX) return false;
    *after = (uint8_t)(bytes / 8);
  }
  return !expression.bad && expression.at == expression.end;
}

static onstack_cfi_reader cfi_take_block(cfi_machine *machine) {
  uint64_t length = onstack_cfi_uleb(&machine->reader);
  onstack_cfi_reader block = machine->reader;
  onstack_cfi_skip(&machine->reader, length);
  block.bad = machine->reader.bad;
  block.end = block.bad ? block.at : block.at + (size_t)length;
  return block;
}

static void cfi_cfa_expression(cfi_machine *machine) {
  onstack_cfi_reader block = cfi_take_block(machine);
  cfi_state *now = &machine->now;
  now->cfa_kind = ONSTACK_CFA_LOST;
  if (block.bad) return;
  if (cfi_match_plt(block.base + block.at, block.end - block.at, &now->cfa_offset))
    now->cfa_kind = ONSTACK_CFA_PLT;
  else if (cfi_match_deref(block, CFI_REG_FP, &now->cfa_offset, &now->cfa_after) && now->cfa_after == 0)
    now->cfa_kind = ONSTACK_CFA_DEREF_FP;
  else if (cfi_match_deref(block, CFI_REG_SP, &now->cfa_offset, &now->cfa_after))
    now->cfa_kind = ONSTACK_CFA_DEREF_SP;
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

static void cfi_register_expression(cfi_machine *machine) {
  uint64_t number = onstack_cfi_uleb(&machine->reader);
  onstack_cfi_reader block = cfi_take_block(machine);
  int64_t offset;
  /* "The saved FP is where FP points": what compilers write for functions that realign their stack. */
  bool at_fp = number == CFI_REG_FP && cfi_match_offset(&block, CFI_REG_FP, &offset) && block.at == block.end &&
               offset == 0;
  cfi_set_register(machine, number, at_fp ? CFI_AT_FP : CFI_UNKNOWN, 0);
}

static void cfi_set_cfa_register(cfi_machine *machine, uint64_t number) {
  machine->now.cfa_kind = number == CFI_REG_SP   ? ONSTACK_CFA_SP
                          : number == CFI_REG_FP ? ONSTACK_CFA_FP
                          : number == CFI_REG_BX ? ONSTACK_CFA_BX
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

/* Whole bytes, because rules are compared as bytes. */
static onstack_rule cfi_bare_rule(uint8_t cfa) {
  onstack_rule rule;
  memset(&rule, 0, sizeof(rule));
  rule.cfa = cfa;
  return rule;
}

#if defined(__aarch64__)
/*
 * glibc's lazy resolver (sysdeps/aarch64/dl-trampoline.S) leaves out of its CFA the two words that .plt pushed, x16 and
 * LR: alone among all functions it has LR above its CFA. Before its last instruction, br, both are popped again.
 */
static void cfi_mend_resolver(onstack_rule *rule) {
  rule->cfa_offset += 16;
  rule->ra = rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == 0 ? ONSTACK_AT_SAME : -1;
}

/* Its first instruction, bti c, stands before that CFI (DW_CFA_offset_extended_sf 30, -1), though .plt has pushed. */
static void cfi_foresee_resolver(cfi_machine *machine) {
  static const uint8_t next[] = {0x11, CFI_REG_LR, 0x7f};
  const onstack_cfi_reader *reader = &machine->reader;
  if (machine->location == machine->low && machine->common->data_align == -8 &&
      reader->end - reader->at >= sizeof(next) && memcmp(reader->base + reader->at, next, sizeof(next)) == 0)
    machine->now.ra = (cfi_register){CFI_AT_CFA, 8};
}
#endif

static onstack_rule cfi_to_rule(const cfi_machine *machine) {
  const cfi_state *state = &machine->now;
  bool good = true, bx_good = true;
  if (machine->common->signal_frame) return cfi_bare_rule(ONSTACK_CFA_SIGNAL);
  if (state->ra.place == CFI_UNDEFINED) return cfi_bare_rule(ONSTACK_CFA_ROOT);
  onstack_rule rule = cfi_bare_rule(state->cfa_kind), lost = cfi_bare_rule(ONSTACK_CFA_LOST);
  if (state->cfa_kind == ONSTACK_CFA_NONE || state->cfa_kind == ONSTACK_CFA_LOST) return lost;
  if (state->cfa_offset < INT32_MIN || state->cfa_offset > INT32_MAX) return lost;
  rule.cfa_offset = (int32_t)state->cfa_offset;
  if (state->cfa_kind == ONSTACK_CFA_DEREF_SP || state->cfa_kind == ONSTACK_CFA_REGISTER) rule.after = state->cfa_after;
  rule.ra = cfi_words(&state->ra, &good);
  /* A frame pointer that cannot be recovered is only lost, not the frame: its value is checked when it is used. */
  cfi_register fp = state->fp;
  if (fp.place == CFI_UNDEFINED || fp.place == CFI_UNKNOWN) fp.place = CFI_SAME;
  rule.fp = cfi_words(&fp, &good);
  rule.bx = cfi_words(&state->bx, &bx_good);
  if (!bx_good) rule.bx = ONSTACK_AT_SAME;
#if defined(__x86_64__)
  if (rule.ra == ONSTACK_AT_SAME) return lost; /* there is no link register */
#else
  if (rule.ra == 1 && rule.fp == ONSTACK_AT_SAME) cfi_mend_resolver(&rule);
#endif
  return good && rule.ra != ONSTACK_AT_FP ? rule : lost;
}

static void cfi_advance(cfi_machine *machine, uint64_t delta) {
#if defined(__aarch64__)
  cfi_foresee_resolver(machine);
#endif
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
  case 0x00: /* nop */
    return true;
  case 0x01: /* set_loc */
    cfi_advance(machine, 0);
    machine->location = onstack_cfi_pointer(reader, machine->common->pointer_encoding);
    return true;
  case 0x02: /* advance_loc1, 2, 4 */
    cfi_advance(machine, onstack_cfi_byte(reader));
    return true;
  case 0x03:
    cfi_advance(machine, onstack_cfi_fixed(reader, 2));
    return true;
  case 0x04:
    cfi_advance(machine, onstack_cfi_fixed(reader, 4));
    return true;
  case 0x05: /* offset_extended */
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_AT_CFA, (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff) * align);
    return true;
  case 0x06: /* restore_extended */
    cfi_restore_register(machine, onstack_cfi_uleb(reader));
    return true;
  case 0x07: /* undefined */
    cfi_set_register(machine, onstack_cfi_uleb(reader), CFI_UNDEFINED, 0);
    return true;
  case 0x08: /* same_value */
    cfi_set_register(machine, onstack_cfi_uleb(reader), CFI_SAME, 0);
    return true;
  case 0x09: /* register */
    number = onstack_cfi_uleb(reader);
    onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case 0x0a: /* remember_state */
    if (machine->depth == CFI_STATES) return false;
    machine->stack[machine->depth++] = machine->now;
    return true;
  case 0x0b: /* restore_state */
    if (machine->depth == 0) return false;
    machine->now = machine->stack[--machine->depth];
    return true;
  case 0x0c: /* def_cfa */
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    machine->now.cfa_offset = (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff);
    return true;
  case 0x0d: /* def_cfa_register */
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    return true;
  case 0x0e: /* def_cfa_offset */
    machine->now.cfa_offset = (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff);
    return true;
  case 0x0f: /* def_cfa_expression */
    cfi_cfa_expression(machine);
    return true;
  case 0x10: /* expression */
    cfi_register_expression(machine);
    return true;
  case 0x11: /* offset_extended_sf */
    number = onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_AT_CFA, (int32_t)onstack_cfi_sleb(reader) * align);
    return true;
  case 0x12: /* def_cfa_sf */
    cfi_set_cfa_register(machine, onstack_cfi_uleb(reader));
    machine->now.cfa_offset = (int32_t)onstack_cfi_sleb(reader) * align;
    return true;
  case 0x13: /* def_cfa_offset_sf */
    machine->now.cfa_offset = (int32_t)onstack_cfi_sleb(reader) * align;
    return true;
  case 0x14: /* val_offset, val_offset_sf: the register's value, not its place */
  case 0x15:
    number = onstack_cfi_uleb(reader);
    onstack_cfi_uleb(reader);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case 0x16: /* val_expression */
    number = onstack_cfi_uleb(reader);
    cfi_take_block(machine);
    cfi_set_register(machine, number, CFI_UNKNOWN, 0);
    return true;
  case 0x2d: /* AARCH64_negate_ra_state: return addresses are stripped always */
    return true;
  case 0x2e: /* GNU_args_size */
    onstack_cfi_uleb(reader);
    return true;
  case 0x2f: /* GNU_negative_offset_extended */
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
    switch (byte & 0xc0) {
    case 0x40: /* advance_loc */
      cfi_advance(machine, byte & 0x3f);
      break;
    case 0x80: /* offset */
      cfi_set_register(machine, byte & 0x3f, CFI_AT_CFA,
                       (int64_t)(onstack_cfi_uleb(reader) & 0xffffffff) * machine->common->data_align);
      break;
    case 0xc0: /* restore */
      cfi_restore_register(machine, byte & 0x3f);
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

void onstack_cfi_run(onstack_cfi_section *section, const onstack_cfi_function *function,
                     void (*emit)(void *data, uint64_t address, const onstack_rule *rule), void *data) {
  cfi_machine machine;
  onstack_cfi_function again;
  onstack_cfi_reader reader;
  uint64_t common_offset;
  bool is_function;
  const onstack_rule lost = cfi_bare_rule(ONSTACK_CFA_LOST);
  /* Not the stack of states, which is large, and written before it is read. */
  memset(&machine.now, 0, sizeof(machine.now));
  machine.initial = machine.now;
  machine.depth = 0;
  machine.data = NULL;
  if (!cfi_open_entry(section, function->entry, &reader, &common_offset, &is_function) || !is_function ||
      !cfi_parse_function(section, function->entry, common_offset, &reader, &again)) {
    emit(data, function->low, &lost);
    return;
  }
  machine.common = &section->common;
  machine.reader = reader;
  machine.low = machine.location = function->low;
  machine.emit = cfi_emit_nothing;
  bool good = cfi_run_part(&machine, section->common.instructions, section->common.end);
  machine.initial = machine.now;
  machine.emit = emit;
  machine.data = data;
  machine.location = function->low;
  good = good && cfi_run_part(&machine, reader.at, reader.end);
  onstack_rule rule = good ? cfi_to_rule(&machine) : lost;
  emit(data, machine.location, &rule);
}
