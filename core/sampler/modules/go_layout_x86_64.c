/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/go_runtime.h"

#include "platform/process.h"

#include <string.h>

#if defined(__x86_64__)

/* A copy of a function's code, which may be unmapped at any instant. Empty where it cannot be had, or is implausibly long:
   no function that is looked at has more than some hundred bytes. */
#define LAYOUT_CODE_BYTES 2048u

typedef struct layout_code {
  uint64_t address; /* of bytes[0], as loaded */
  const uint8_t *end;
  uint8_t bytes[LAYOUT_CODE_BYTES];
} layout_code;

static void layout_fetch(layout_code *code, const onstack_code_range *body) {
  const uint64_t size = body->high - body->low;
  const bool had = size <= sizeof(code->bytes) && onstack_process_memory_copy(body->low, code->bytes, size) == size;
  code->address = body->low;
  code->end = code->bytes + (had ? size : 0);
}

/* Instructions with holes: -1 stands for any byte. */
#define LAYOUT_ANY (-1)

/* True if the code at `at` is the pattern. */
static bool layout_matches(const uint8_t *at, const uint8_t *end, const int16_t *pattern, size_t length) {
  if ((size_t)(end - at) < length) return false;
  for (size_t i = 0; i < length; i++)
    if (pattern[i] != LAYOUT_ANY && at[i] != (uint8_t)pattern[i]) return false;
  return true;
}

static uint64_t layout_signed(const uint8_t *at) {
  int32_t value;
  memcpy(&value, at, sizeof(value));
  return (uint64_t)(int64_t)value;
}

/*
 * The load of g (get_tls, g(DI)) in the three forms that linkers make of it: local, relaxed, through the GOT (a shared
 * library: the loader has put the offset there). Returns what follows; NULL: something else.
 */
static const uint8_t *layout_tls(const layout_code *code, uint64_t *offset) {
  const uint8_t *at = code->bytes, *end = code->end;
  static const int16_t local[] = {0x64, 0x48, 0x8b, 0x3c, 0x25, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY};
  static const int16_t relaxed[] = {0x48,       0xc7, 0xc1, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY,
                                    LAYOUT_ANY, 0x64, 0x48, 0x8b,       0x39};
  static const int16_t got[] = {0x48, 0x8b, 0x0d, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY, 0x64, 0x48, 0x8b, 0x39};
  if (layout_matches(at, end, local, ONSTACK_COUNT_OF(local))) {
    *offset = layout_signed(at + 5);
    return at + ONSTACK_COUNT_OF(local);
  }
  if (layout_matches(at, end, relaxed, ONSTACK_COUNT_OF(relaxed))) {
    *offset = layout_signed(at + 3);
    return at + ONSTACK_COUNT_OF(relaxed);
  }
  if (!layout_matches(at, end, got, ONSTACK_COUNT_OF(got))) return NULL;
  const uint64_t entry = code->address + 7 + layout_signed(at + 3);
  return onstack_process_memory_copy(entry, offset, sizeof(*offset)) == sizeof(*offset) ? at + ONSTACK_COUNT_OF(got) : NULL;
}

/*
 * morestack: after the load of g
 *   mov g_m(%rdi),%rbx; mov (%rsp),%rax; mov %rax,sched_pc(%rdi); lea 8(%rsp),%rax; mov %rax,sched_sp(%rdi)
 * and soon m.g0, which is m's first word: mov (%rbx),%rsi; cmp %rsi,%rdi.
 */
static bool layout_read_morestack(onstack_go_layout *layout, const layout_code *code) {
  static const int16_t saves[] = {0x48,       0x8b, 0x5f, LAYOUT_ANY, 0x48, 0x8b, 0x04, 0x24, 0x48, 0x89,      0x47,
                                  LAYOUT_ANY, 0x48, 0x8d, 0x44,       0x24, 0x08, 0x48, 0x89, 0x47, LAYOUT_ANY};
  static const int16_t compares[] = {0x48, 0x8b, 0x33, 0x48, 0x39, 0xf7};
  const uint8_t *at = layout_tls(code, &layout->tls_g), *end = code->end;
  if (!at || !layout_matches(at, end, saves, ONSTACK_COUNT_OF(saves))) return false;
  layout->g_m = at[3];
  layout->sched_pc = at[11];
  layout->sched_sp = at[20];
  const uint8_t *last = at + 48 < end ? at + 48 : end;
  for (at += ONSTACK_COUNT_OF(saves); at < last; at++)
    if (layout_matches(at, end, compares, ONSTACK_COUNT_OF(compares))) return true;
  return false;
}

/* systemstack: mov (%rbx),%rdx; cmp %rdx,%rax; je; cmp m_curg(%rbx),%rax; jne. */
static bool layout_read_systemstack(onstack_go_layout *layout, const layout_code *code) {
  static const int16_t compares[] = {0x48, 0x8b, 0x13, 0x48,       0x39,       0xd0,       0x74,       LAYOUT_ANY,
                                     0x48, 0x3b, 0x83, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY, LAYOUT_ANY, 0x75};
  for (const uint8_t *at = code->bytes; at < code->end; at++) {
    if (!layout_matches(at, code->end, compares, ONSTACK_COUNT_OF(compares))) continue;
    layout->m_curg = (uint32_t)layout_signed(at + 11);
    return layout->m_curg < 4096 && layout->m_curg % 8 == 0;
  }
  return false;
}

/*
 * The offset behind the one instruction that loads SP from g.sched: mov disp8(reg),%rsp, or in gogo mov (%rbx),%rsp
 * (REX.W, 8B, ModRM with register 4; RSP and R12 as a base would need a SIB byte). 0: none, or several.
 */
static uint32_t layout_switch(const layout_code *code) {
  uint32_t found = 0;
  for (const uint8_t *at = code->bytes; code->end - at >= 4; at++) {
    bool displaced = (at[2] & 0xf8) == 0x60 && at[2] != 0x64;
    if ((at[0] & 0xfe) != 0x48 || at[1] != 0x8b || !(displaced || at[2] == 0x23)) continue;
    if (found) return 0;
    found = (uint32_t)(at - code->bytes) + (displaced ? 4 : 3);
  }
  return found;
}

/* asmcgocall: the offset of the call that follows its last store, mov %rdi,(%rsp); call. 0: none. */
static uint32_t layout_call(const layout_code *code) {
  static const int16_t stores[] = {0x48, 0x89, 0x3c, 0x24, 0xe8};
  for (const uint8_t *at = code->bytes; at < code->end; at++)
    if (layout_matches(at, code->end, stores, ONSTACK_COUNT_OF(stores))) return (uint32_t)(at - code->bytes) + 4;
  return 0;
}

bool onstack_go_layout_grows(const char *name) { return strcmp(name, "runtime.morestack") == 0; }

void onstack_go_layout_read(onstack_go_runtime *go) {
  onstack_go_layout layout = {0};
  layout_code code;
  bool grows = false, switches = false;
  /* A name may have two bodies: the wrapper for the other calling convention does not match. */
  for (uint32_t i = 0; i < go->special_count; i++) {
    onstack_go_special *special = &go->specials[i];
    layout_fetch(&code, &special->body);
    if (special->kind == ONSTACK_GO_GROWS || special->kind == ONSTACK_GO_LEAVES || special->kind == ONSTACK_GO_RESUMES)
      special->switch_at = layout_switch(&code);
    if (special->kind == ONSTACK_GO_BY_G) special->switch_at = layout_call(&code);
    if (special->kind == ONSTACK_GO_GROWS) grows = grows || layout_read_morestack(&layout, &code);
    if (special->kind == ONSTACK_GO_BY_FP) switches = switches || layout_read_systemstack(&layout, &code);
  }
  layout.known = grows && switches;
  if (layout.known) go->layout = layout;
}

#endif
