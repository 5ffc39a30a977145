/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sampler/modules/go_runtime.h for arm64, where g is in x28: words of code with holes for registers' offsets (Arm ARM C6.2).
 * The functions are in runtime/asm_arm64.s and runtime/tls_arm64.s.
 */
#include "sampler/modules/go_runtime.h"

#include "platform/process.h"

#include <string.h>

#if defined(__aarch64__)

/* A copy of a function's code, which may be unmapped at any instant. */
#define LAYOUT_CODE_WORDS 1024u

typedef struct layout_code {
  uint64_t address; /* of words[0], as loaded */
  uint32_t count;
  uint32_t words[LAYOUT_CODE_WORDS];
} layout_code;

#define LAYOUT_OFFSET 0x003ffc00u /* the scaled offset of ldr and str, in words of eight bytes */

/* `size` bytes of code from `address` on; nothing where they are no whole words, too many, or cannot be had. */
static void layout_fetch(layout_code *code, uint64_t address, uint64_t size) {
  code->address = address;
  code->count = 0;
  if (address & 3 || size > sizeof(code->words) || onstack_process_memory_copy(address, code->words, size) != size) return;
  code->count = (uint32_t)size / 4;
}

static uint32_t layout_offset(uint32_t word) { return ((word & LAYOUT_OFFSET) >> 10) * 8; }

/* mov sp, xN, but not mov sp, sp (which tells Go's linker that a function writes SP). */
static bool layout_moves_sp(uint32_t word) { return (word & 0xfffffc1fu) == 0x9100001fu && word != 0x910003ffu; }

/* Finds words in a row, those with `holes` set but for their offset. Returns the index of the first; count: none. */
static uint32_t layout_find(const layout_code *code, const uint32_t *words, const bool *holes, uint32_t count) {
  for (uint32_t i = 0; i + count <= code->count; i++) {
    uint32_t same = 0;
    while (same < count && ((code->words[i + same] ^ words[same]) & ~(holes[same] ? LAYOUT_OFFSET : 0u)) == 0) same++;
    if (same == count) return i;
  }
  return code->count;
}

/*
 * The TLS offset of g, out of save_g: mrs x0, tpidr_el0; <x27 = offset>; str x28, [x0, x27]. Linkers write the middle as
 * movz and movk, or as a load of what the loader has put into the GOT: adrp, ldr.
 */
static bool layout_read_tls(const layout_code *code, uint64_t *offset) {
  uint64_t value = 0;
  bool found = false;
  for (uint32_t i = 0; i < code->count; i++) {
    uint32_t word = code->words[i];
    if (word == 0xf83b681cu) {
      *offset = value;
      return found && value < (uint64_t)1 << 32 && value % 8 == 0;
    }
    if ((word & 0xffc0001fu) == 0xd280001bu || (word & 0xffc0001fu) == 0xf280001bu) { /* movz, movk x27, #n, lsl 0/16 */
      if (word >> 22 & 1) return false;
      uint64_t part = (uint64_t)(word >> 5 & 0xffff) << (word >> 21 & 1) * 16;
      value = word >> 29 & 1 ? value | part : part;
      found = true;
    } else if ((word & 0x9f00001fu) == 0x9000001bu) { /* adrp x27 */
      int64_t pages = (int64_t)((uint64_t)(word >> 5 & 0x7ffff) << 45) >> 43 | (int64_t)(word >> 29 & 3);
      value = ((code->address + i * 4) & ~(uint64_t)4095) + (uint64_t)pages * 4096;
    } else if ((word & 0xffc003ffu) == 0xf940037bu) { /* ldr x27, [x27, #n] */
      if (onstack_process_memory_copy(value + layout_offset(word), &value, sizeof(value)) != sizeof(value)) return false;
      found = true;
    }
  }
  return false;
}

/* Where a bl leads to; 0: it is none, or out of this runtime's text (a linker's veneer). */
static uint64_t layout_target(const onstack_go_runtime *go, const layout_code *code, uint32_t at) {
  const uint32_t word = code->words[at];
  if ((word & 0xfc000000u) != 0x94000000u) return 0;
  uint64_t target = code->address + at * 4 + (uint64_t)((int64_t)((uint64_t)word << 38) >> 36);
  return target >= go->text.low && target < go->text.high ? target : 0;
}

/*
 * morestack: g.m and m.g0, which is m's first word; what it saves of its caller's caller; and the change of stacks:
 *   ldr x8, [x28, #g_m]; ldr x4, [x8]
 *   mov x0, sp; str x0, [x28, #sched_sp]; str x29, [x28, #sched_bp]; str x30, [x28, #sched_pc]; str x3, [x28, #sched_lr]
 *   ldr x28, [x8]; bl save_g
 */
static bool layout_read_morestack(const onstack_go_runtime *go, const layout_code *code, onstack_go_layout *layout) {
  static const uint32_t begins[] = {0xf9400388u, 0xf9400104u};
  static const uint32_t saves[] = {0x910003e0u, 0xf9000380u, 0xf900039du, 0xf900039eu, 0xf9000383u};
  static const uint32_t leaves[] = {0xf940011cu};
  static const bool first[] = {true, false}, stores[] = {false, true, true, true, true}, none[] = {false};
  uint32_t begin = layout_find(code, begins, first, 2);
  uint32_t save = layout_find(code, saves, stores, 5);
  uint32_t leave = layout_find(code, leaves, none, 1);
  if (begin != 0 || save == code->count || leave < save || leave + 1 >= code->count) return false;
  layout->g_m = layout_offset(code->words[0]);
  layout->sched_sp = layout_offset(code->words[save + 1]);
  layout->sched_pc = layout_offset(code->words[save + 3]);
  layout->sched_lr = layout_offset(code->words[save + 4]);
  uint64_t save_g = layout_target(go, code, leave + 1);
  layout_code saves_g;
  layout_fetch(&saves_g, save_g, save_g != 0 && go->text.high - save_g >= 64 ? 64 : 0);
  return layout_read_tls(&saves_g, &layout->tls_g);
}

/* systemstack: ldr x5, [x4]; cmp x28, x5; b.eq; ldr x6, [x4, #m_curg]; cmp x28, x6. */
static bool layout_read_systemstack(const layout_code *code, onstack_go_layout *layout) {
  static const uint32_t loads[] = {0xf9400086u, 0xeb1c00dfu};
  static const bool holes[] = {true, false};
  uint32_t at = layout_find(code, loads, holes, 2);
  if (at == code->count) return false;
  layout->m_curg = layout_offset(code->words[at]);
  return true;
}

/*
 * The offset behind the one instruction that moves to another stack. Without any it is the body's length: SP stays
 * (morestack_noctxt jumps to morestack). 0: several.
 */
static uint32_t layout_switch(const layout_code *code) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < code->count; i++) {
    if (!layout_moves_sp(code->words[i])) continue;
    if (found) return 0;
    found = (i + 1) * 4;
  }
  return found ? found : code->count * 4;
}

/* Where a way of asmcgocall ends that has come back at `back`: behind ldur x29, [sp, #-8]. */
static uint32_t layout_relinked(const layout_code *code, uint32_t back) {
  for (uint32_t i = back + 1; i < code->count && i < back + 4; i++)
    if (code->words[i] == 0xf85f83fdu) return i + 1;
  return back + 1;
}

/*
 * asmcgocall has two ways: mov sp, xN; ...; blr x1; ...; mov sp, xN; ...; ldur x29, [sp, #-8]. Outside of these ranges
 * it is a function like any other. The first replaces the body, the second becomes a special of its own.
 */
static void layout_cut_asmcgocall(onstack_go_runtime *go, onstack_go_special *special, const layout_code *code) {
  uint64_t low = special->body.low;
  uint32_t opens = 0, calls = 0;
  bool open = false, first = true;
  special->kind = ONSTACK_GO_PLAIN; /* the wrapper, which stays on its stack */
  for (uint32_t i = 0; i < code->count; i++) {
    if (code->words[i] == 0xd63f0020u) calls = i;
    if (!layout_moves_sp(code->words[i])) continue;
    if (first) special->kind = ONSTACK_GO_BY_G;
    if (!open) {
      opens = i;
      open = true;
    } else if (calls > opens) {
      if (!first && go->special_count == ONSTACK_GO_SPECIALS) return;
      onstack_go_special *way = first ? special : &go->specials[go->special_count++];
      way->body = (onstack_code_range){low + opens * 4, low + layout_relinked(code, i) * 4};
      way->kind = ONSTACK_GO_BY_G;
      way->switch_at = (calls - opens) * 4;
      first = open = false;
    }
  }
}

/* morestack_noctxt jumps to morestack, with the caller of its caller in x3 as there. */
bool onstack_go_layout_grows(const char *name) {
  return strcmp(name, "runtime.morestack") == 0 || strcmp(name, "runtime.morestack_noctxt") == 0;
}

void onstack_go_layout_read(onstack_go_runtime *go) {
  onstack_go_layout layout = {0};
  layout_code code;
  bool grows = false, switches = false;
  /* A name may have two bodies: the wrapper for the other calling convention does not match. */
  uint32_t count = go->special_count;
  for (uint32_t i = 0; i < count; i++) {
    onstack_go_special *special = &go->specials[i];
    layout_fetch(&code, special->body.low, special->body.high - special->body.low);
    if (special->kind == ONSTACK_GO_GROWS || special->kind == ONSTACK_GO_LEAVES || special->kind == ONSTACK_GO_RESUMES)
      special->switch_at = layout_switch(&code);
    if (special->kind == ONSTACK_GO_GROWS) grows = layout_read_morestack(go, &code, &layout) || grows;
    if (special->kind == ONSTACK_GO_BY_FP) switches = layout_read_systemstack(&code, &layout) || switches;
    if (special->kind == ONSTACK_GO_BY_G) layout_cut_asmcgocall(go, special, &code);
  }
  layout.known = grows && switches;
  if (layout.known) go->layout = layout;
}

#endif
