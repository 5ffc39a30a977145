/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Frames of CPython and PHP in memory of any content. Promises: a walk ends, and writes no more frames than it may; names end,
 * and are UTF-8 in Python's case.
 * Input: what interpreter (0 to 4: CPython's versions; 5, 6: PHP's), how many frames are asked for, and the arena's words, of
 * which some become addresses in it.
 */
#include "fuzz.h"

#include "plugins/interpreters/php.c" /* their layouts */
#include "plugins/interpreters/python.c"
#include "platform/interpreted.h"
#include "platform/sys.h"
#include "platform/context.h"
#include "profile/store/store.h"

#include <sys/mman.h>

#define ARENA ((uint64_t)0x20000000)
#define ARENA_WORDS 8192u
#define ARENA_STATE 64u /* where Python's thread state is, in words */
#define FRAMES_MOST 64u

static uint64_t *arena;

static void arena_open(void) {
  if (arena) return;
  arena = mmap((void *)(uintptr_t)ARENA, ARENA_WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
               -1, 0);
  fuzz_check((uint64_t)(uintptr_t)arena == ARENA);
}

static void arena_fill(fuzz_input *input) {
  memset(arena, 0, ARENA_WORDS * 8);
  for (uint32_t i = 0; i < ARENA_WORDS && input->left > 0; i++) {
    const uint64_t word = fuzz_take(input, 8);
    arena[i] = word >> 48 == 0xffff ? ARENA + (word & (ARENA_WORDS * 8 - 1)) : word;
  }
}

static uint32_t arena_read(uint64_t address, void *to, uint32_t bytes) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)to, bytes}, remote = {address, bytes};
  return onstack_sys_process_vm_readv(&local, 1, &remote, 1) == (long)bytes;
}

/* Not by a load, as in life: the address may lie in the sanitizer's own memory. */
static uint32_t arena_read_word(uint64_t address, uint64_t *word) { return arena_read(address, word, sizeof(*word)); }

static void set_python(const onstack_python_layout *layout) {
  static onstack_python found;
  uint8_t *state = (uint8_t *)(arena + ARENA_STATE);
  const uint64_t self = onstack_arch_thread_pointer(), address = (uint64_t)(uintptr_t)state;
  arena[0] = address;
  memcpy(state + layout->thread_id, &self, sizeof(self));
  found = (onstack_python){.layout = layout,
                           .runtime = ARENA,
                           .code_type = ARENA + 8,
                           .string_type = ARENA + 16,
                           .key_offset = (int64_t)(ARENA - self),
                           .self_offset = 0};
  onstack_python_found = &found;
}

static void check_text(const onstack_frame_text *text, bool utf8) {
  const size_t length = strnlen(text->function, sizeof(text->function));
  fuzz_check(length > 0 && length < sizeof(text->function));
  fuzz_check(strnlen(text->file, sizeof(text->file)) < sizeof(text->file));
  for (size_t at = 0, step; utf8 && at < length; at += step) {
    step = onstack_profile_utf8_length(text->function + at, length - at);
    fuzz_check(step > 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  const uint32_t which = (uint32_t)fuzz_take(&input, 1) % 7, capacity = 1 + (uint32_t)fuzz_take(&input, 1) % FRAMES_MOST;
  const bool python = which < ONSTACK_COUNT_OF(python_layouts);
  arena_open();
  arena_fill(&input);
  if (python)
    set_python(&python_layouts[which]);
  else
    onstack_php_found = (onstack_php){1, &php_layouts[which - ONSTACK_COUNT_OF(python_layouts)], ARENA};
  uint64_t place = 0;
  onstack_frame_memory memory = {.read = arena_read,
                                 .read_own = arena_read_word,
                                 .scratch = fuzz_copy(NULL, ONSTACK_FRAME_SCRATCH),
                                 .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                 .thread_pointer = onstack_arch_thread_pointer(),
                                 .place = &place};
  onstack_interpreted_frame *frames = (void *)fuzz_copy(NULL, capacity * sizeof(*frames));
  const uint32_t result = (python ? onstack_python_copy : onstack_php_copy)(NULL, &memory, frames, capacity);
  const uint32_t count = result & ~ONSTACK_INTERPRETED_CUT;
  fuzz_check(count <= capacity);
  for (uint32_t i = 0; i < count; i++) {
    onstack_frame_text text = {.size = sizeof(text)};
    if ((python ? python_describe : php_describe)(NULL, &onstack_copied_memory, &frames[i], &text) == 0)
      check_text(&text, python);
  }
  free(frames);
  free(memory.scratch);
  return 0;
}
