/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/interpreter/php.h"

#include "base/atomics.h"
#include "handler/interpreter/window.h"

ONSTACK_INTERNAL_DEFINE onstack_php onstack_php_found;

#define PHP_STEPS 1024u /* frames that are looked at, those of generators without a function too */

/* zend_execute_data, the same in all these versions. */
#define PHP_FRAME_BYTES 56u
#define PHP_FRAME_OPCODE 0u
#define PHP_FRAME_FUNCTION 24u
#define PHP_FRAME_INFO 40u /* This.u1.type_info, and the number of arguments */
#define PHP_FRAME_PREVIOUS 48u
#define PHP_INFO_TOP 0x20000u /* ZEND_CALL_TOP: a call of the loop of its own */

#define PHP_GLOBALS_BYTES 24u /* from vm_stack to current_execute_data */

typedef struct php_scratch {
  uint8_t globals[PHP_GLOBALS_BYTES];
  uint8_t frame[ONSTACK_WINDOW_FRAME];
  uint8_t window[ONSTACK_WINDOW_BYTES];
} php_scratch;
_Static_assert(sizeof(php_scratch) <= ONSTACK_FRAME_SCRATCH, "it has room");

static ONSTACK_HANDLER uint32_t php_follow(onstack_window *window, uint64_t address, onstack_interpreted_frame *frames,
                                           uint32_t capacity) {
  uint32_t count = 0;
  for (uint32_t step = 0; address != 0; step++) {
    const uint8_t *bytes = step < PHP_STEPS ? onstack_window_frame(window, address, PHP_FRAME_BYTES) : NULL;
    if (!bytes) return count | ONSTACK_INTERPRETED_CUT;
    const uint64_t function = onstack_window_word(bytes, PHP_FRAME_FUNCTION);
    address = onstack_window_word(bytes, PHP_FRAME_PREVIOUS);
    if (function == 0) continue; /* between a generator and who resumes it */
    if (count == capacity) return count | ONSTACK_INTERPRETED_CUT;
    /* The lower half of the opcode's address: the other one is that of the function's opcodes. */
    frames[count].function = function;
    frames[count].position = (uint32_t)onstack_window_word(bytes, PHP_FRAME_OPCODE);
    frames[count].flags = onstack_window_word(bytes, PHP_FRAME_INFO) & PHP_INFO_TOP ? ONSTACK_INTERPRETED_ENTRY : 0;
    count++;
  }
  return count;
}

ONSTACK_HANDLER uint32_t onstack_php_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                                          uint32_t capacity) {
  (void)data;
  if (!onstack_observe(&onstack_php_found.ready)) return 0; /* pairs with the publish in control/interpreter/php.c */
  const onstack_php_layout *layout = onstack_php_found.layout;
  php_scratch *scratch = memory->scratch;
  onstack_window window = {.memory = memory, .frame = scratch->frame, .bytes = scratch->window};
  const uint32_t offset = (uint32_t)(layout->globals_frame - layout->globals_page);
  if (!onstack_window_read(memory, onstack_php_found.globals + layout->globals_page, scratch->globals, PHP_GLOBALS_BYTES))
    return 0;
  window.piece = onstack_window_word(scratch->globals, 0);
  return php_follow(&window, onstack_window_word(scratch->globals, offset), frames, capacity);
}

uint32_t onstack_php_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                             onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)hint;
  return onstack_php_copy(data, memory, frames, capacity);
}
