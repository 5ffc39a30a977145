/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
#include "sampler/modules/blocked.h"

#if defined(__x86_64__)

#include "platform/defs.h"
#include "sampler/modules/prologue_x86_64.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/unwinder.h"

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
