/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * nongnu libunwind. Variants: "context", from the interrupted registers on (unw_init_local2, unw_step), and
 * "backtrace", the one call that most people find first, which begins in the handler.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <string.h>

#include "walker.h"

static int from_context;

static size_t walk_context(void *ucontext, uint64_t *frames, size_t capacity) {
  unw_cursor_t cursor;
  size_t count = 0;
  unw_word_t pc;
  if (unw_init_local2(&cursor, ucontext, UNW_INIT_SIGNAL_FRAME) != 0) return 0;
  do {
    if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) break;
    frames[count++] = pc;
  } while (count < capacity && unw_step(&cursor) > 0);
  return count;
}

static size_t walk(void *ucontext, uint64_t *frames, size_t capacity) {
  if (from_context) return walk_context(ucontext, frames, capacity);
  int count = unw_backtrace((void **)frames, (int)capacity);
  return count > 0 ? (size_t)count : 0;
}

static const char *prepare(const char *variant) {
  uint64_t frames[16];
  from_context = strcmp(variant, "context") == 0;
  unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
  unw_backtrace((void **)frames, 16); /* what it does once, outside the signal */
  return NULL;
}

const walker walker_linked = {"libunwind", prepare, walk};
