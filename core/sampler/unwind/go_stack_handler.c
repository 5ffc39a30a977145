/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/go_stack.h"

#include "platform/defs.h"
#include "sampler/unwind/arch.h"

/* runtime/runtime2.go, _func: offsets of the fields that are read here (Go 1.18 and later). */
#define GO_FUNC_PCSP 16u
#define GO_FUNC_FLAG 41u
#define GO_FUNC_SIZE 44u
#define GO_FLAG_SPWRITE 2u

static ONSTACK_HANDLER uint32_t go_half(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A varint of at most 32 bits; the position becomes `end` when it runs out. */
static ONSTACK_HANDLER uint32_t go_varint(const uint8_t **at, const uint8_t *end) {
  uint32_t value = 0;
  for (uint32_t shift = 0; *at < end && shift < 35; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint32_t)(byte & 0x7f) << (shift & 31);
    if (!(byte & 0x80)) return value;
  }
  *at = end;
  return 0;
}

/* The last function whose entry is not behind `offset`. The caller has checked that there is one. */
static ONSTACK_HANDLER uint32_t go_find_function(const onstack_go_functions *functions, uint32_t offset) {
  uint32_t low = 0, high = functions->count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (go_half(functions->functab + (size_t)middle * 8) <= offset)
      low = middle;
    else
      high = middle;
  }
  return low;
}

ONSTACK_HANDLER bool onstack_go_frame_at(const onstack_go_runtime *go, uint64_t address, onstack_go_frame *frame) {
  const onstack_go_functions *functions = &go->functions;
  uint64_t offset = address - functions->text;
  if (offset > UINT32_MAX || offset < go_half(functions->functab)) return false;
  uint32_t function = go_find_function(functions, (uint32_t)offset);
  uint32_t entry = go_half(functions->functab + (size_t)function * 8);
  uint32_t record = go_half(functions->functab + (size_t)function * 8 + 4);
  if ((uint64_t)record + GO_FUNC_SIZE > (uint64_t)(functions->end - functions->functions)) return false;
  const uint8_t *at = functions->functions + record;
  uint32_t pcsp = go_half(at + GO_FUNC_PCSP);
  if (pcsp == 0 || pcsp >= (size_t)(functions->end - functions->pctab)) return false;
  frame->entry = functions->text + entry;
  frame->writes_sp = (at[GO_FUNC_FLAG] & GO_FLAG_SPWRITE) != 0;
  /* Pairs {value delta, zigzag; PC delta} (runtime/symtab.go, step); the value begins with -1 at the entry. */
  const uint8_t *pair = functions->pctab + pcsp;
  uint32_t value = UINT32_MAX;
  uint64_t pc = entry;
  for (bool first = true; pair < functions->end; first = false) {
    uint32_t delta = go_varint(&pair, functions->end);
    if (delta == 0 && !first) return false;
    value += delta & 1 ? ~(delta >> 1) : delta >> 1;
    pc += (uint64_t)go_varint(&pair, functions->end) * functions->quantum;
    if (offset < pc) {
      frame->depth = (int32_t)value;
      return frame->depth >= 0 && (frame->depth & 7) == 0;
    }
  }
  return false;
}

/* g.stack must look like a stack that holds `depth` bytes; 1 GiB is Go's maximal stack (64-bit). */
static ONSTACK_HANDLER bool go_stack_is_sane(const uint64_t stack[2], uint64_t depth) {
  return onstack_address_plausible(stack[0]) && onstack_address_plausible(stack[1]) && stack[1] > stack[0] &&
         stack[1] - stack[0] <= ((uint64_t)1 << 30) && depth < stack[1] - stack[0] && !(depth & 7);
}

/*
 * g.stack of the goroutine that waits for the C code on this stack. It lies in a mapping with goroutines' stacks, whose bounds
 * are known once one of them was walked: then the reader may load it as it loads the stack itself, a tenth of the time of the
 * kernel's copy. Nobody frees a g that waits for this very thread, and Go never unmaps the memory of its heap
 * (runtime/mheap.go: only its pages are given back).
 */
static ONSTACK_HANDLER bool go_read_stack(onstack_memory *memory, uint64_t g, uint64_t stack[2]) {
  const uint64_t low = memory->low, high = memory->high;
  const onstack_stack_range *range = onstack_memory_find_range(memory, g);
  if (range) {
    memory->low = range->low;
    memory->high = range->high;
  }
  const bool got = onstack_memory_read_pair(memory, g, stack);
  memory->low = low;
  memory->high = high;
  return got;
}

ONSTACK_HANDLER uint64_t onstack_go_waiting_sp(onstack_memory *memory, uint64_t sp) {
  uint64_t saved[2], stack[2];
  if (!onstack_memory_read_pair(memory, sp, saved)) return 0;
  uint64_t g = saved[ONSTACK_GO_SAVED_G], depth = saved[1 - ONSTACK_GO_SAVED_G];
  if (g == 0) return onstack_address_plausible(depth) && !(depth & 7) ? depth : 0;
  if (!go_read_stack(memory, g, stack) || !go_stack_is_sane(stack, depth)) return 0;
  return stack[1] - depth;
}

static ONSTACK_HANDLER bool go_read(onstack_memory *memory, uint64_t address, uint64_t *word) {
  uint64_t pair[2];
  if (!onstack_memory_read_pair(memory, address, pair)) return false;
  *word = pair[0];
  return true;
}

/* The g of the thread whose stack it is. */
static ONSTACK_HANDLER bool go_read_g(onstack_memory *memory, const onstack_go_layout *layout, uint64_t *g) {
  return layout->known && !memory->elsewhere && go_read(memory, onstack_thread_pointer() + layout->tls_g, g);
}

ONSTACK_HANDLER bool onstack_go_running_stack(onstack_memory *memory, const onstack_go_runtime *go, uint64_t stack[2]) {
  uint64_t g;
  return go_read_g(memory, &go->layout, &g) && go_read_stack(memory, g, stack) && go_stack_is_sane(stack, 0);
}

/* *waits: the goroutine's g, 0 for none. */
static ONSTACK_HANDLER bool go_find_waiting(onstack_memory *memory, const onstack_go_runtime *go, uint64_t *waits,
                                            onstack_go_point *at) {
  const onstack_go_layout *layout = &go->layout;
  uint64_t g, m, g0, curg, curg_m, stack[2];
  if (!go_read_g(memory, layout, &g)) return false;
  if (!go_read(memory, g + layout->g_m, &m) || !go_read(memory, m, &g0) || g0 != g) return false;
  if (!go_read(memory, m + layout->m_curg, &curg) || curg == g) return false;
  *at = (onstack_go_point){0, 0, 0};
  *waits = curg;
  if (curg == 0) return true;
  if (!go_read(memory, curg + layout->g_m, &curg_m) || curg_m != m) return false;
  if (!go_read(memory, curg + layout->sched_sp, &at->sp) || !go_read(memory, curg + layout->sched_pc, &at->pc)) return false;
  if (layout->sched_lr != 0 && !go_read(memory, curg + layout->sched_lr, &at->lr)) return false;
  return onstack_memory_read_pair(memory, curg, stack) && go_stack_is_sane(stack, stack[1] - at->sp);
}

ONSTACK_HANDLER bool onstack_go_growing(onstack_memory *memory, const onstack_go_runtime *go, onstack_go_point *at) {
  uint64_t waits;
  return go_find_waiting(memory, go, &waits, at);
}

ONSTACK_HANDLER uint64_t onstack_go_waiting(onstack_memory *memory, const onstack_go_runtime *go, onstack_go_point *at) {
  uint64_t waits;
  return go_find_waiting(memory, go, &waits, at) ? waits : 0;
}
