/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/php.h"

#include "platform/atomics.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/unwind/memory.h"

ONSTACK_INTERNAL_DEFINE onstack_php onstack_php_found;

#define PHP_STEPS 1024u /* frames that are looked at, those of generators without a function too */

/* zend_execute_data, the same in all these versions. */
#define PHP_FRAME_BYTES 56u
#define PHP_FRAME_OPCODE 0u
#define PHP_FRAME_FUNCTION 24u
#define PHP_FRAME_INFO 40u /* This.u1.type_info, and the number of arguments */
#define PHP_FRAME_PREVIOUS 48u
#define PHP_INFO_TOP 0x20000u /* ZEND_CALL_TOP: a call of the loop of its own */

/* zend_function, where the versions agree. */
#define PHP_FUNCTION_TYPE 0u
#define PHP_FUNCTION_NAME 8u
#define PHP_FUNCTION_SCOPE 16u
#define PHP_INTERNAL_BYTES 24u /* of one in native code, which can be shorter */
#define PHP_STRING_HASH 8u

#define PHP_GLOBALS_BYTES 24u /* from vm_stack to current_execute_data */

typedef struct php_scratch {
  uint8_t globals[PHP_GLOBALS_BYTES];
  uint8_t frame[ONSTACK_WINDOW_FRAME];
  uint8_t window[ONSTACK_WINDOW_BYTES];
  uint8_t function[ONSTACK_PHP_FUNCTION_BYTES];
  uint64_t identity[ONSTACK_IDENTITY];
} php_scratch;
_Static_assert(sizeof(php_scratch) <= ONSTACK_FRAME_SCRATCH, "it has room");

ONSTACK_HANDLER bool onstack_php_identify(const onstack_frame_memory *memory, uint64_t function, uint8_t *bytes,
                                          uint64_t identity[ONSTACK_IDENTITY]) {
  const onstack_php_layout *layout = onstack_php_found.layout;
  volatile uint64_t *words = identity;
  uint64_t hash;
  const bool whole = onstack_window_read(memory, function, bytes, ONSTACK_PHP_FUNCTION_BYTES);
  if (!whole && !onstack_window_read(memory, function, bytes, PHP_INTERNAL_BYTES)) return false;
  const uint64_t type = onstack_window_word(bytes, PHP_FUNCTION_TYPE) & 0xff;
  if (type != ONSTACK_PHP_INTERNAL && (!whole || (type != ONSTACK_PHP_USER && type != ONSTACK_PHP_EVAL))) return false;
  words[ONSTACK_PHP_NAME] = onstack_window_word(bytes, PHP_FUNCTION_NAME);
  words[ONSTACK_PHP_SCOPE] = onstack_window_word(bytes, PHP_FUNCTION_SCOPE);
  words[ONSTACK_PHP_FILE] = type == ONSTACK_PHP_INTERNAL ? 0 : onstack_window_word(bytes, layout->function_file);
  words[ONSTACK_PHP_OPCODES] = type == ONSTACK_PHP_INTERNAL ? 0 : onstack_window_word(bytes, layout->function_opcodes);
  words[ONSTACK_PHP_OPCODES] |= type << 56;
  /* A file's own code has no name. */
  const bool hashed = words[ONSTACK_PHP_NAME] != 0 &&
                      onstack_window_read(memory, words[ONSTACK_PHP_NAME] + PHP_STRING_HASH, &hash, sizeof(hash));
  words[ONSTACK_PHP_NAME_HASH] = hashed ? hash : 0;
  return true;
}

/* For the flags of a frame; *left: how many more this sample takes. */
static ONSTACK_HANDLER uint32_t php_fingerprint(const onstack_frame_memory *memory, uint64_t function, uint32_t *left) {
  php_scratch *scratch = memory->scratch;
  if (onstack_fingerprint_is_named(function)) return ONSTACK_FINGERPRINT_NAMED << ONSTACK_FINGERPRINT_SHIFT;
  if (*left == 0 || !onstack_php_identify(memory, function, scratch->function, scratch->identity))
    return ONSTACK_FINGERPRINT_UNPROVEN << ONSTACK_FINGERPRINT_SHIFT;
  --*left;
  return onstack_fingerprint_of(scratch->identity) << ONSTACK_FINGERPRINT_SHIFT;
}

static ONSTACK_HANDLER uint32_t php_follow(onstack_window *window, uint64_t address, onstack_interpreted_frame *frames,
                                           uint32_t capacity) {
  uint32_t count = 0, fingerprints = ONSTACK_FINGERPRINTS;
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
    frames[count].flags |= php_fingerprint(window->memory, function, &fingerprints);
    count++;
  }
  return count;
}

static ONSTACK_HANDLER uint32_t php_copy(const onstack_frame_memory *memory, uint64_t globals,
                                         onstack_interpreted_frame *frames, uint32_t capacity) {
  const onstack_php_layout *layout = onstack_php_found.layout;
  php_scratch *scratch = memory->scratch;
  onstack_window window = {.memory = memory, .frame = scratch->frame, .bytes = scratch->window};
  const uint32_t offset = (uint32_t)(layout->globals_frame - layout->globals_page);
  if (!onstack_window_read(memory, globals + layout->globals_page, scratch->globals, PHP_GLOBALS_BYTES)) return 0;
  window.piece = onstack_window_word(scratch->globals, 0);
  return php_follow(&window, onstack_window_word(scratch->globals, offset), frames, capacity);
}

ONSTACK_HANDLER uint32_t onstack_php_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                                          uint32_t capacity) {
  (void)data;
  if (!onstack_observe(&onstack_php_found.ready)) return 0; /* pairs with the publish in sampler/interpreter/php.c */
  const onstack_php *php = &onstack_php_found;
  uint64_t block;
  if (php->globals != 0) return php_copy(memory, php->globals, frames, capacity);
  /* A thread that never ran PHP has no block. */
  if (!memory->read_own(onstack_thread_pointer() + php->block_offset, &block) || block == 0) return 0;
  return php_copy(memory, block + php->globals_offset, frames, capacity);
}

uint32_t onstack_php_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                             onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)hint;
  const bool has_one = onstack_observe(&onstack_php_found.ready) && onstack_php_found.globals != 0;
  return has_one ? onstack_php_copy(data, memory, frames, capacity) : 0;
}
