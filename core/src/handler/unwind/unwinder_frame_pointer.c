/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
 * - The chain is whole when it ends in a zero frame pointer (the ABIs' mark, set by _start, clone and Go), but not in
 *   generated code.
 *
 * Go on amd64: asmcgocall stores the goroutine's g and stack depth on g0's stack, just above the C frame's return
 * address (runtime/asm_amd64.s: 0(SP) = depth, 8(SP) = g). The goroutine's SP is g.stack.hi - depth, and asmcgocall's
 * own record is there. The saved RBP is not used for this hop: when a Go callback has grown the goroutine's stack it
 * points into the old, freed one. On arm64 the place is found by g0.sched.sp, see fp_cross_asmcgocall.
 */
#include "base/address.h"
#include "handler/unwind/code_map.h"
#include "handler/unwind/go_stack.h"
#include "handler/unwind/rules/rules.h"
#include "handler/unwind/unwinder.h"

typedef struct fp_cursor {
  uint64_t fp;
  uint64_t floor; /* the next record must lie here or above */
  bool scheduled; /* a frame of Go's scheduler was passed */
#if defined(__aarch64__)
  uint64_t system_sp; /* g0.sched.sp outside of the last callback passed; 0: the thread's own */
#endif
} fp_cursor;

#if defined(__aarch64__)
/* How far below SP the first record may begin: Go's lies at SP - 8 (LR is stored at SP itself), and the one for duffzero
   and duffcopy at SP - 24 (cmd/internal/obj/arm64/obj7.go). */
#define FP_BELOW 24u
#else
#define FP_BELOW 0u
#endif

#if defined(__aarch64__)
/*
 * arm64 (runtime/asm_arm64.s): a C frame's record does not tell its CFA, where asmcgocall stores g and depth. But that is
 * just below g0.sched.sp, which stays until a callback: cgocallback keeps the one of the calls outside of it in its frame.
 * Called on the system stack already, asmcgocall stores its SP over the caller's saved x29, one word below its own LR.
 */
static ONSTACK_HANDLER bool fp_cross_asmcgocall(onstack_memory *memory, const onstack_go_runtime *go, fp_cursor *cursor,
                                                uint64_t saved_fp) {
  uint64_t link[2];
  if (saved_fp > cursor->fp && onstack_memory_read_pair(memory, saved_fp, link) && link[0] == saved_fp + 8) {
    cursor->floor = cursor->fp = saved_fp;
    return true;
  }
  uint64_t system_sp = cursor->system_sp ? cursor->system_sp : onstack_go_system_sp(memory, go);
  uint64_t sp = system_sp > cursor->fp ? onstack_go_waiting_sp(memory, system_sp - 16) : 0;
  if (sp == 0) return false;
  onstack_memory_enter_stack(memory, sp);
  cursor->floor = cursor->fp = sp - 8;
  return true;
}

/*
 * From cgocallback's record to crosscall2's (runtime/cgo/asm_arm64.s), which keeps C's x29 and LR at the top of its frame
 * and leaves x29 alone: where that is only SP tells. `pc` is in cgocallback, 16(RSP) of whose frame is the system SP of
 * the calls outside.
 */
static ONSTACK_HANDLER bool fp_cross_crosscall2(onstack_memory *memory, const onstack_go_runtime *go, fp_cursor *cursor,
                                                uint64_t pc, uint64_t return_address) {
  onstack_go_frame callback, crosscall;
  uint64_t saved[2];
  if (!onstack_go_frame_at(go, pc - 1, &callback) || !onstack_go_frame_at(go, return_address - 1, &crosscall)) return false;
  if (!onstack_memory_read_pair(memory, cursor->fp + 24, saved)) return false;
  cursor->system_sp = saved[0];
  cursor->floor = cursor->fp = cursor->fp + 8 + (uint64_t)callback.depth + (uint64_t)crosscall.depth - 16;
  return true;
}
#else
/* From the record of a C frame that returns into asmcgocall to asmcgocall's own record. */
static ONSTACK_HANDLER bool fp_cross_asmcgocall(onstack_memory *memory, fp_cursor *cursor) {
  uint64_t sp = onstack_go_waiting_sp(memory, cursor->fp + 16);
  if (sp == 0) return false;
  onstack_memory_enter_stack(memory, sp);
  cursor->fp = sp;
  cursor->floor = sp;
  return true;
}

/*
 * crosscall2 (runtime/cgo/asm_amd64.s, C's way into Go) saves RBP twice: the assembler's own record, and one word below
 * it another link to that record, which RBP points at during the call. The word above that link is no return address.
 */
static ONSTACK_HANDLER void fp_skip_double_record(onstack_memory *memory, fp_cursor *cursor) {
  uint64_t link[2];
  if (onstack_memory_read_pair(memory, cursor->fp, link) && link[0] == cursor->fp + 8) cursor->fp += 8;
}
#endif

/* Moves the cursor to the caller's record; `record` is the one just read, the return address of the frame at `pc`. */
static ONSTACK_HANDLER onstack_truncation fp_advance(onstack_memory *memory, fp_cursor *cursor, const uint64_t record[2],
                                                     uint64_t return_address, uint64_t pc) {
  const onstack_go_runtime *go = onstack_code_find_go(return_address - 1);
  uint32_t treatment = go ? onstack_code_go_treatment(go, return_address - 1) : ONSTACK_GO_PLAIN;
  if (treatment == ONSTACK_GO_SCHEDULES) cursor->scheduled = true;
  /* It clears its frame pointer: a goroutine waits above, unless it was preempted and given up. */
  if (treatment == ONSTACK_GO_GROWS && !cursor->scheduled) return ONSTACK_TRUNCATED_STACK_SWITCH;
#if defined(__aarch64__)
  if (treatment == ONSTACK_GO_BY_G)
    return fp_cross_asmcgocall(memory, go, cursor, record[0]) ? ONSTACK_TRUNCATED_NOT : ONSTACK_TRUNCATED_STACK_SWITCH;
  if (treatment == ONSTACK_GO_CROSSCALL2)
    return fp_cross_crosscall2(memory, go, cursor, pc, return_address) ? ONSTACK_TRUNCATED_NOT
                                                                       : ONSTACK_TRUNCATED_STACK_SWITCH;
#else
  (void)pc;
  if (treatment == ONSTACK_GO_BY_G)
    return fp_cross_asmcgocall(memory, cursor) ? ONSTACK_TRUNCATED_NOT : ONSTACK_TRUNCATED_STACK_SWITCH;
#endif
  cursor->floor = cursor->fp + 16;
  cursor->fp = record[0];
#if defined(__aarch64__)
  /* What asmcgocall stored there is its SP: one word below its caller's record. */
  if (go && (cursor->fp & 15) == 0 && cursor->fp != 0) cursor->fp += 8;
#else
  if (treatment == ONSTACK_GO_CROSSCALL2) fp_skip_double_record(memory, cursor);
#endif
  if (treatment == ONSTACK_GO_BY_FP && cursor->fp != 0) {
    /* To the other stack, which nobody moves while this one runs: the goroutine waits in systemstack, or the C frames
       wait below the callback. */
    cursor->floor = cursor->fp;
    onstack_memory_enter_stack(memory, cursor->fp);
  }
  return ONSTACK_TRUNCATED_NOT;
}

/* Code of no module is not where a thread begins: whoever called it clears the frame pointer on a stack of its own. */
static ONSTACK_HANDLER bool fp_is_generated(uint64_t address) {
  onstack_module module = {.low = 0};
  return onstack_modules_find(address, &module) == ONSTACK_MODULE_NONE;
}

static ONSTACK_HANDLER onstack_walk_result fp_run(const onstack_walk *walk) {
  onstack_code_range last = {0, 0};
  fp_cursor cursor = {.fp = walk->registers->fp, .floor = walk->registers->sp - FP_BELOW};
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
    if (count == walk->capacity) {
      why = ONSTACK_TRUNCATED_DEPTH;
      break;
    }
    if (walk->found) walk->found[count - 1] = ONSTACK_BY_RECORD;
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
  if (why == ONSTACK_TRUNCATED_NOT && count > 1 && fp_is_generated(walk->frames[count - 1] - 1))
    why = ONSTACK_TRUNCATED_STACK_SWITCH;
  return (onstack_walk_result){count, why};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_frame_pointer = {"frame_pointer", true, false, 512,
                                                                                     fp_run};
