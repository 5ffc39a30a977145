/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The unwinders that read no memory by themselves: `pc_only`, and the host's. */
#include "sampler/unwind/unwinder.h"

#include "platform/atomics.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"
#include "sampler/unwind/rules.h"

/* Unwinder `pc_only`: the interrupted PC and nothing else. */
static ONSTACK_HANDLER onstack_walk_result pc_only_run(const onstack_walk *walk) {
  walk->frames[0] = walk->registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_BY_DESIGN};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_pc_only = {"pc_only", false, false, 128, pc_only_run};

/*
 * Adapter for the user's unwinder (onstack_unwinder in the public header). What it returns is checked, because its
 * count decides how far the drain reads.
 */
static ONSTACK_HANDLER onstack_walk_result custom_run(const onstack_walk *walk) {
  onstack_walk_result result =
      walk->custom->walk(walk->custom->data, walk->registers, walk->ucontext, walk->frames, walk->capacity);
  if (result.frame_count > walk->capacity) {
    result.frame_count = walk->capacity;
    result.truncation = ONSTACK_TRUNCATED_DEPTH;
  }
  for (uint32_t i = 0; walk->unwound_by && i < result.frame_count; i++) walk->unwound_by[i] = ONSTACK_BY_UNWINDER;
  if (result.truncation >= ONSTACK_TRUNCATION_COUNT) result.truncation = ONSTACK_TRUNCATED_UNWINDER;
  return result;
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_custom = {"custom", false, false, 0, custom_run};

/*
 * Unwinder `frame_pointer`: follows the chain of frame records {saved frame pointer, return address}.
 *
 * Sources: System V ABI AMD64 3.2.2 (RBP), AAPCS64 6.2.3 (x29), Go's internal ABI (RBP on amd64, x29 on arm64).
 *
 * What it knows and what it does not:
 * - frames[0] is the interrupted PC. In a function that keeps no frame record, or in a prologue, the caller is lost
 *   (its record is not linked yet) but no frame is invented.
 * - A chain must rise: each record lies above the one before, at least one record apart. Only at a known switch of
 *   stacks may it go elsewhere.
 * - Each return address must lie in executable memory. Code without frame pointers leaves anything in RBP; most of it
 *   fails here or on alignment, and the sample says which.
 * - The chain is whole when it reaches a frame that is known to begin stacks (sampler/unwind/generated_code.h). A zero frame
 *   pointer, the ABIs' mark of that, is found in code without frame pointers too.
 * Between C and Go the next record is elsewhere: frame_pointer_*_handler.c.
 */

/* ---- where a chain ends -------------------------------------------------------------------------------------------------- */

#define CHAIN_ENTRY_BYTES 64u   /* of an entry, which is assembly */
#define CHAIN_THREAD_BYTES 512u /* before and behind: libc calls a thread's function in two places (thrd_create) */
#define CHAIN_MAIN_BYTES 256u   /* of the main thread's stack: musl's frames before main; glibc's are larger */

ONSTACK_INTERNAL_DEFINE onstack_chain_roots onstack_chain_roots_known;

void onstack_chain_note_thread(uint64_t return_address) {
  onstack_store_relaxed(&onstack_chain_roots_known.thread_begins, onstack_address_strip(return_address));
}

/* Only if libc is a library: code of the program at that place may be main, or a function that main has called. */
static ONSTACK_HANDLER bool chain_is_before_main(uint64_t address, uint64_t entry) {
  onstack_code_range range = {0, 0};
  return onstack_load_relaxed(&onstack_chain_roots_known.has_libc) && onstack_code_is_known(address, &range) &&
         entry - range.low >= range.high - range.low;
}

ONSTACK_HANDLER bool onstack_chain_begins(uint64_t address, uint64_t sp) {
  const onstack_chain_roots *roots = &onstack_chain_roots_known;
  const uint64_t entry = onstack_load_relaxed(&roots->entry), thread = onstack_load_relaxed(&roots->thread_begins);
  const uint64_t loader_entry = onstack_load_relaxed(&roots->loader_entry);
  if (address - entry < CHAIN_ENTRY_BYTES && entry != 0) return true;
  if (address - loader_entry < CHAIN_ENTRY_BYTES && loader_entry != 0) return true;
  if (address - (thread - CHAIN_THREAD_BYTES) < 2 * (uint64_t)CHAIN_THREAD_BYTES && thread != 0) return true;
  return onstack_load_relaxed(&roots->main_sp) - sp < CHAIN_MAIN_BYTES && chain_is_before_main(address, entry);
}

ONSTACK_HANDLER onstack_truncation onstack_chain_end(uint64_t address, uint64_t sp) {
  onstack_module module = {.low = 0};
  if (onstack_chain_begins(address, sp)) return ONSTACK_TRUNCATED_NOT;
  switch (onstack_modules_find(address, &module)) {
  case ONSTACK_MODULE_HERE:
    return ONSTACK_TRUNCATED_NOT_RISING;
  case ONSTACK_MODULES_CHANGING:
    return ONSTACK_TRUNCATED_PENDING;
  default: /* generated code, whose caller cleared the frame pointer on a stack of its own */
    return ONSTACK_TRUNCATED_STACK_SWITCH;
  }
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------ */

#define FP_ROOT ONSTACK_TRUNCATION_COUNT /* not a truncation: the walk is complete */

/* Moves the cursor to the caller's record; `record` is the one just read, the return address of the frame at `pc`. */
static ONSTACK_HANDLER onstack_truncation fp_advance(onstack_memory *memory, onstack_fp_cursor *cursor,
                                                     const uint64_t record[2], uint64_t return_address, uint64_t pc) {
  const onstack_go_runtime *go = onstack_code_find_go(return_address - 1);
  uint32_t kind = go ? onstack_code_go_kind(go, return_address - 1) : ONSTACK_GO_PLAIN;
  if (kind == ONSTACK_GO_ROOT || kind == ONSTACK_GO_LEAVES) return FP_ROOT;
  if (!go && onstack_chain_begins(return_address - 1, cursor->fp + 16)) return FP_ROOT;
  if (kind == ONSTACK_GO_SCHEDULES) cursor->scheduled = true;
  /* It clears its frame pointer: a goroutine waits above, unless it was preempted and given up. */
  if (kind == ONSTACK_GO_GROWS) return cursor->scheduled ? FP_ROOT : ONSTACK_TRUNCATED_STACK_SWITCH;
  if (kind == ONSTACK_GO_BY_G || kind == ONSTACK_GO_CROSSCALL2) {
    const onstack_fp_call call = {go, record[0], pc, return_address, kind};
    return onstack_fp_cross(memory, cursor, &call) ? ONSTACK_TRUNCATED_NOT : ONSTACK_TRUNCATED_STACK_SWITCH;
  }
  cursor->floor = cursor->fp + 16;
  cursor->fp = record[0];
  /* arm64: what asmcgocall stored there is its SP, one word below its caller's record. */
  if (ONSTACK_GO_RECORD_BELOW != 0 && go && (cursor->fp & 15) == 0 && cursor->fp != 0) cursor->fp += ONSTACK_GO_RECORD_BELOW;
  if (kind == ONSTACK_GO_BY_FP && cursor->fp != 0) {
    /* To the other stack, which nobody moves while this one runs: the goroutine waits in systemstack, or the C frames
       wait below the callback. */
    cursor->floor = cursor->fp;
    onstack_memory_enter_stack(memory, cursor->fp);
  }
  return ONSTACK_TRUNCATED_NOT;
}

static ONSTACK_HANDLER onstack_walk_result fp_run(const onstack_walk *walk) {
  onstack_code_range last = {0, 0};
  onstack_fp_cursor cursor = {.fp = walk->registers->fp, .floor = walk->registers->sp - ONSTACK_FIRST_RECORD_BELOW};
  uint64_t record[2];
  uint32_t count = 1;
  uint32_t switches = 0;
  onstack_truncation why = ONSTACK_TRUNCATED_NOT;
  walk->frames[0] = walk->registers->pc;
  while (cursor.fp != 0) {
    if (cursor.fp & 7) {
      why = ONSTACK_TRUNCATED_MISALIGNED;
      break;
    }
    if (cursor.fp < cursor.floor) {
      why = ONSTACK_TRUNCATED_NOT_RISING;
      break;
    }
    if (!onstack_memory_read_pair(walk->memory, cursor.fp, record)) {
      why = ONSTACK_TRUNCATED_UNREADABLE;
      break;
    }
    uint64_t return_address = onstack_address_strip(record[1]);
    if (return_address == 0 && record[0] == 0) break; /* a root that writes its mark as a whole record */
    if (!onstack_code_is_executable(return_address, &last)) {
      why = ONSTACK_TRUNCATED_BAD_RETURN;
      break;
    }
    /* Accepted only since the ranges are being written: it may be any number. */
    if (return_address - last.low >= last.high - last.low) {
      why = ONSTACK_TRUNCATED_PENDING;
      break;
    }
    if (count == walk->capacity) {
      why = ONSTACK_TRUNCATED_DEPTH;
      break;
    }
    if (walk->unwound_by) walk->unwound_by[count - 1] = ONSTACK_BY_RECORD;
    walk->frames[count++] = return_address;
    uint64_t before = cursor.fp;
    why = fp_advance(walk->memory, &cursor, record, return_address, walk->frames[count - 2]);
    if (why != ONSTACK_TRUNCATED_NOT) break;
    /* Two stacks that point at each other would go round until the capacity is reached; nesting is finite. */
    if (cursor.fp != 0 && cursor.fp <= before && ++switches > 64) {
      why = ONSTACK_TRUNCATED_NOT_RISING;
      break;
    }
  }
  /* The frame pointer is zero. */
  if (why == ONSTACK_TRUNCATED_NOT) why = onstack_chain_end(walk->frames[count - 1] - (count > 1), cursor.floor);
  return (onstack_walk_result){count, why == FP_ROOT ? ONSTACK_TRUNCATED_NOT : why};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_frame_pointer = {"frame_pointer", true, false, 512,
                                                                                     fp_run};
