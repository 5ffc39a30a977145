/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel says SP and PC of a blocked thread (/proc/self/task/T/syscall), and no other register. Where the frame pointer is
 * needed before a frame gives it back, it follows from the CFA of the first frame that is found by it: all frames below keep
 * the register. With it the walker `rules` does the rest.
 *
 *   by prologue   behind push %rbp; mov %rsp,%rbp come pushes and sub $n,%rsp among other instructions; they say how far
 *                 below the CFA SP is at a call
 *   by search     the first word above SP that lies behind a direct call to that very function (a frame of variable size)
 *
 * Either is believed only where a call ends before the return address, and a direct one leads to the function's beginning; a
 * call by way of the PLT only where the prologue says so.
 */
#ifndef ONSTACK_TESTS_WAITING_FRAME_POINTER_H
#define ONSTACK_TESTS_WAITING_FRAME_POINTER_H

#include "base/address.h"
#include "handler/unwind/arch.h"
#include "handler/unwind/code_map.h"
#include "handler/unwind/go_stack.h"
#include "handler/unwind/rules/rules.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum find_fp {
  FIND_UNNEEDED, /* a frame gives it back before it is needed, or the stack ends */
  FIND_BY_PROLOGUE,
  FIND_BY_SEARCH,
  FIND_BY_GO,      /* by Go's table of frame sizes */
  FIND_NO_RULE,    /* code without a rule before it is known */
  FIND_NO_ENTRY,   /* the function's beginning is not one that we know */
  FIND_NO_CALL,    /* nothing on the stack looks like its return address */
  FIND_OTHER_RULE, /* a rule by another register */
  FIND_UNREADABLE,
  FIND_DEEP,
  FIND_RESULTS
} find_fp;

static const char *const find_names[FIND_RESULTS] = {"unneeded", "prologue", "search",     "go",         "no rule",
                                                     "no entry", "no call",  "other rule", "unreadable", "deep"};

static bool find_read(uint64_t address, void *out, size_t bytes) {
  const struct iovec local = {out, bytes}, remote = {(void *)(uintptr_t)address, bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}
static bool find_word(uint64_t address, uint64_t *word) {
  return (address & 7) == 0 && onstack_address_plausible(address) && find_read(address, word, 8);
}

/* The length of an instruction that compilers put into prologues; 0: another one, or one that leads elsewhere (Intel SDM
   volume 2, appendix A). */
static size_t find_length(const uint8_t *code) {
  const uint8_t *at = code;
  bool wide = false, half = false;
  size_t immediate = 0;
  while (*at == 0x66 || *at == 0xf2 || *at == 0xf3) half |= *at++ == 0x66;
  if ((*at & 0xf0) == 0x40) wide = (*at++ & 8) != 0;
  const uint8_t op = *at++;
  if (op == 0x0f) {
    const uint8_t second = *at++;
    if ((second & 0xf0) == 0x80 || second == 0x05 || second == 0x0b || second == 0x34 || second == 0x38 || second == 0x3a)
      return 0;
    if (second == 0xa2 || second == 0x31) return (size_t)(at - code);
    if (second == 0x70 || second == 0xc6 || second == 0xba || second == 0xc2 || second == 0xa4 || second == 0xac)
      immediate = 1;
  } else if ((op & 0xf0) == 0x50 || op == 0x90 || op == 0x98 || op == 0x99) {
    return (size_t)(at - code);
  } else if ((op & 0xf8) == 0xb8) {
    return (size_t)(at - code) + (wide ? 8 : half ? 2 : 4);
  } else if ((op & 0xf8) == 0xb0 || op == 0x6a || op == 0xa8 || (op < 0x40 && (op & 7) == 4)) {
    return (size_t)(at - code) + 1;
  } else if (op == 0x68 || op == 0xa9 || (op < 0x40 && (op & 7) == 5)) {
    return (size_t)(at - code) + (half ? 2 : 4);
  } else if (op == 0x80 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0x6b) {
    immediate = 1;
  } else if (op == 0x81 || op == 0xc7 || op == 0x69) {
    immediate = half ? 2 : 4;
  } else if (op == 0xf6 || op == 0xf7) {
    immediate = (*at & 0x38) <= 8 ? (op == 0xf6 ? 1 : half ? 2 : 4) : 0;
  } else if (op == 0xff) {
    if ((*at & 0x38) > 8 && (*at & 0x38) != 0x30) return 0;
  } else if (!((op < 0x40 && (op & 7) < 4) || op == 0x63 || (op >= 0x84 && op <= 0x8d) || op == 0xd1 || op == 0xd3)) {
    return 0;
  }
  const uint8_t modrm = *at++, mod = modrm >> 6;
  if (mod != 3) {
    const uint8_t base = (modrm & 7) == 4 ? *at++ & 7 : modrm & 7;
    if (mod == 1) at += 1;
    if (mod == 2 || (mod == 0 && base == 5)) at += 4;
  }
  return (size_t)(at - code) + immediate;
}

typedef struct find_prologue {
  uint64_t entry_low, entry_high; /* the function begins in here */
  uint64_t framed;                /* behind mov %rsp,%rbp */
} find_prologue;

/* The prologue, in the rows before `pc`: CFA SP+8, SP+16 behind push %rbp, FP+16 behind the move. */
static bool find_prologue_of(const onstack_module *module, uint64_t pc, find_prologue *out) {
  const uint64_t offset = pc - module->base;
  for (uint64_t back = 1; back < 65536 && back < offset; back++) {
    const onstack_rule *rule = onstack_rules_lookup(module->table, offset - back);
    const onstack_rule *next = onstack_rules_lookup(module->table, offset - back + 1);
    if (!rule) return false;
    if (!next || next->cfa != ONSTACK_CFA_FP || rule->cfa != ONSTACK_CFA_SP || rule->cfa_offset != 16 || rule->fp != -2)
      continue;
    out->framed = pc - back + 1;
    while (back < offset && onstack_rules_lookup(module->table, offset - back) == rule) back++;
    out->entry_high = pc - back;
    rule = onstack_rules_lookup(module->table, offset - back);
    if (!rule || rule->cfa != ONSTACK_CFA_SP || rule->cfa_offset != 8) return false;
    while (back < offset && onstack_rules_lookup(module->table, offset - back) == rule) back++;
    out->entry_low = pc - back + 1;
    return true;
  }
  return false;
}

/* Bytes between SP at the call before `pc` and the saved frame pointer; -1: nobody can tell. */
static int64_t find_depth(uint64_t framed, uint64_t pc) {
  uint8_t code[256 + 16];
  int64_t depth = 0;
  size_t at = 0;
  memset(code, 0, sizeof(code));
  if (!find_read(framed, code, 256)) return -1;
  while (at < 240 && framed + at < pc) {
    const uint8_t *c = code + at;
    int32_t n;
    memcpy(&n, c + 3, 4);
    const size_t length = find_length(c);
    if (length == 0) break;
    if (c[0] >= 0x50 && c[0] <= 0x57)
      depth += 8;
    else if (c[0] == 0x41 && c[1] >= 0x50 && c[1] <= 0x57)
      depth += 8;
    else if (c[0] == 0x68 || c[0] == 0x6a || (c[0] >= 0x58 && c[0] <= 0x5f) ||
             (c[0] == 0x41 && c[1] >= 0x58 && c[1] <= 0x5f))
      return -1;
    else if (c[0] == 0x48 && c[1] == 0x83 && c[2] == 0xec)
      depth += (int8_t)c[3];
    else if (c[0] == 0x48 && c[1] == 0x83 && c[2] == 0xc4)
      depth -= (int8_t)c[3];
    else if (c[0] == 0x48 && c[1] == 0x81 && c[2] == 0xec)
      depth += n;
    else if (c[0] == 0x48 && c[1] == 0x81 && c[2] == 0xc4)
      depth -= n;
    else if (c[0] == 0x48 && (c[1] == 0x83 || c[1] == 0x81) && c[2] == 0xe4)
      return -1; /* and $n,%rsp */
    else if ((c[0] & 0xf8) == 0x48 && c[1] == 0x29 && (c[2] & 0xc7) == 0xc4)
      return -1; /* sub %reg,%rsp: alloca */
    at += length;
  }
  return depth;
}

static bool find_follows_call(uint64_t return_address, uint64_t *target) {
  uint8_t code[ONSTACK_CALL_BYTES];
  onstack_code_range last = {0, 0};
  *target = 0;
  if (!onstack_code_is_executable(return_address - 1, &last)) return false;
  if (!find_read(return_address - ONSTACK_CALL_BYTES, code, sizeof(code)) || !onstack_call_ends(code)) return false;
  if (code[3] == 0xe8) {
    int32_t relative;
    memcpy(&relative, code + 4, 4);
    *target = return_address + (uint64_t)(int64_t)relative;
  }
  return true;
}

#define FIND_SEARCH_BYTES 32768u

/* Whether a frame's return address can lie below `cfa`: 2 behind a direct call of the function, 1 behind one by a pointer. */
static int find_is_frame(const find_prologue *prologue, uint64_t cfa) {
  uint64_t word, saved, target;
  if (!find_word(cfa - 8, &word) || !onstack_address_plausible(word) || !find_follows_call(word, &target)) return 0;
  if (!find_word(cfa - 16, &saved)) return 0;
  if (target == 0) return 1;
  return target >= prologue->entry_low && target <= prologue->entry_high ? 2 : 0;
}

/* A direct call of something else may be one of the PLT, or of a part that jumps here. */
static bool find_is_any_frame(uint64_t cfa) {
  uint64_t word, target;
  return find_word(cfa - 8, &word) && onstack_address_plausible(word) && find_follows_call(word, &target);
}

static find_fp find_cfa_by_stack(const onstack_module *module, uint64_t pc, uint64_t sp, uint64_t *cfa) {
  find_prologue prologue;
  if (!find_prologue_of(module, pc, &prologue)) return FIND_NO_ENTRY;
  const int64_t depth = find_depth(prologue.framed, pc);
  const uint64_t by_prologue = sp + (uint64_t)depth + 16;
  *cfa = by_prologue;
  if (depth >= 0 && find_is_frame(&prologue, by_prologue) > 0) return FIND_BY_PROLOGUE;
  for (uint64_t at = sp + 16; at < sp + FIND_SEARCH_BYTES; at += 8) {
    uint64_t word;
    if (!find_word(at - 8, &word)) break;
    *cfa = at;
    if (find_is_frame(&prologue, at) == 2) return FIND_BY_SEARCH;
  }
  *cfa = by_prologue;
  return depth >= 0 && find_is_any_frame(by_prologue) ? FIND_BY_PROLOGUE : FIND_NO_CALL;
}

/* *fp: what the register holds at pc, as far as a walk needs it. */
static find_fp find_frame_pointer(uint64_t pc, uint64_t sp, uint64_t *fp, uint64_t *where) {
  onstack_module module = {.low = 0};
  bool exact = true;
  *fp = 0;
  for (uint32_t depth = 0; depth < 64; depth++) {
    const uint64_t address = exact ? pc : pc - 1;
    const onstack_go_runtime *go = onstack_code_find_go(address);
    uint64_t cfa = 0, word;
    *where = address;
    if (go) {
      onstack_go_frame frame;
      const uint32_t kind = onstack_code_go_kind(go, address);
      if (kind == ONSTACK_GO_ROOT || kind == ONSTACK_GO_LEAVES || kind == ONSTACK_GO_BY_G) return FIND_UNNEEDED;
      if (!onstack_go_frame_at(go, address, &frame)) return FIND_NO_RULE;
      cfa = sp + (uint64_t)frame.depth + 8;
      if (frame.depth >= 8) {
        /* Behind its prologue the register is the function's own record. */
        *fp = cfa - 16;
        return exact ? FIND_UNNEEDED : FIND_BY_GO;
      }
    } else {
      const onstack_rule *rule = onstack_rules_find(address, &module);
      if (!rule) return FIND_NO_RULE;
      switch (rule->cfa) {
      case ONSTACK_CFA_ROOT:
      case ONSTACK_CFA_SIGNAL:
        return FIND_UNNEEDED;
      case ONSTACK_CFA_SP:
        cfa = sp + (uint64_t)(int64_t)rule->cfa_offset;
        break;
      case ONSTACK_CFA_PLT:
        cfa = sp + ((pc & 15) >= (uint64_t)(int64_t)rule->cfa_offset ? 16 : 8);
        break;
      case ONSTACK_CFA_FP: {
        const find_fp how = find_cfa_by_stack(&module, address, sp, &cfa);
        *fp = cfa - (uint64_t)(int64_t)rule->cfa_offset;
        return how;
      }
      default:
        return FIND_OTHER_RULE;
      }
      if (rule->fp != ONSTACK_AT_SAME) return FIND_UNNEEDED;
      if (rule->ra == ONSTACK_AT_SAME) return FIND_OTHER_RULE;
      cfa += (uint64_t)((int64_t)(rule->ra + 1) * 8);
    }
    if (!find_word(cfa - 8, &word)) return FIND_UNREADABLE;
    sp = cfa;
    pc = word;
    exact = false;
  }
  return FIND_DEEP;
}

#endif
