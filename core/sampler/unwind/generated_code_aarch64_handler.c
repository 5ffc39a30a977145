/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/memory.h"

#if defined(__aarch64__)

static ONSTACK_HANDLER bool fp_read(onstack_memory *memory, uint64_t address, uint64_t *word) {
  uint64_t pair[2];
  if (!onstack_memory_read_pair(memory, address, pair)) return false;
  *word = pair[0];
  return true;
}

/* g0.sched.sp of the calling thread: below it asmcgocall has stored where the innermost waiting goroutine is, while the
   thread is in C. 0: not known. */
static ONSTACK_HANDLER uint64_t fp_system_sp(onstack_memory *memory, const onstack_go_runtime *go) {
  const onstack_go_layout *layout = &go->layout;
  uint64_t g, m, g0, sp;
  if (!layout->known || memory->elsewhere || !fp_read(memory, onstack_thread_pointer() + layout->tls_g, &g)) return 0;
  if (!fp_read(memory, g + layout->g_m, &m) || !fp_read(memory, m, &g0)) return 0;
  return fp_read(memory, g0 + layout->sched_sp, &sp) ? sp : 0;
}

/*
 * runtime/asm_arm64.s: a C frame's record does not tell its CFA, where asmcgocall stores g and depth. But that is just
 * below g0.sched.sp, which stays until a callback: cgocallback keeps the one of the calls outside of it in its frame.
 * Called on the system stack already, asmcgocall stores its SP over the caller's saved x29, one word below its own LR.
 */
static ONSTACK_HANDLER bool fp_cross_asmcgocall(onstack_memory *memory, onstack_fp_cursor *cursor,
                                                const onstack_fp_call *call) {
  uint64_t link[2];
  if (call->saved_fp > cursor->fp && onstack_memory_read_pair(memory, call->saved_fp, link) &&
      link[0] == call->saved_fp + 8) {
    cursor->floor = cursor->fp = call->saved_fp;
    return true;
  }
  uint64_t system_sp = cursor->system_sp ? cursor->system_sp : fp_system_sp(memory, call->go);
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
static ONSTACK_HANDLER bool fp_cross_crosscall2(onstack_memory *memory, onstack_fp_cursor *cursor,
                                                const onstack_fp_call *call) {
  onstack_go_frame callback, crosscall;
  uint64_t saved[2];
  if (!onstack_go_frame_at(call->go, call->pc - 1, &callback) ||
      !onstack_go_frame_at(call->go, call->return_address - 1, &crosscall))
    return false;
  if (!onstack_memory_read_pair(memory, cursor->fp + 24, saved)) return false;
  cursor->system_sp = saved[0];
  cursor->floor = cursor->fp = cursor->fp + 8 + (uint64_t)callback.depth + (uint64_t)crosscall.depth - 16;
  return true;
}

ONSTACK_HANDLER bool onstack_fp_cross(onstack_memory *memory, onstack_fp_cursor *cursor, const onstack_fp_call *call) {
  return call->kind == ONSTACK_GO_BY_G ? fp_cross_asmcgocall(memory, cursor, call)
                                       : fp_cross_crosscall2(memory, cursor, call);
}

#endif

#if defined(__aarch64__)

/* wazero's guests keep no records, and use x29 like any other register. Until one does, its record is that of the Go function
   that entered the guest, and leads past that function and past everybody on the guest's stack. */
ONSTACK_HANDLER bool onstack_code_record_is_own(uint64_t return_address) {
  return !onstack_code_find_go(return_address - 1);
}

/* No runtime of generated code is known that clears x29. */
ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  (void)frame;
  (void)memory;
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
