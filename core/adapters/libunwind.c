/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <onstack_libunwind.h>

/* 4.2 KiB were measured below the handler for libunwind 1.6, and the cursor lies on our own frame. */
#define LIBUNWIND_STACK_BYTES (8192 + sizeof(unw_cursor_t))

static int libunwind_init(void *data) {
  (void)data;
  /* A cache for each thread takes no lock in the handler. */
  return unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD) == 0 ? 0 : ONSTACK_E_UNSUPPORTED;
}

static onstack_walk_result libunwind_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                          uint32_t capacity) {
  onstack_walk_result result = {1, ONSTACK_TRUNCATED_NOT};
  unw_cursor_t cursor;
  (void)data;
  frames[0] = registers->pc;
  /* Without a context there is nothing to begin from: a sample that no signal took. The flag says that the first frame was
     interrupted, not called from (libunwind(3)). */
  if (!ucontext || unw_init_local2(&cursor, ucontext, UNW_INIT_SIGNAL_FRAME) != 0) {
    result.truncation = ONSTACK_TRUNCATED_UNWINDER;
    return result;
  }
  for (;;) {
    unw_word_t pc;
    int step = unw_step(&cursor);
    if (step < 0) result.truncation = ONSTACK_TRUNCATED_UNWINDER;
    if (step <= 0 || unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) return result;
    if (result.frame_count == capacity) {
      result.truncation = ONSTACK_TRUNCATED_DEPTH;
      return result;
    }
    frames[result.frame_count++] = pc;
  }
}

const onstack_unwinder *onstack_libunwind(void) {
  static const onstack_unwinder unwinder = {
      .size = sizeof(unwinder),
      .stack_bytes = LIBUNWIND_STACK_BYTES,
      .name = "libunwind",
      .init = libunwind_init,
      .walk = libunwind_walk,
  };
  return &unwinder;
}
