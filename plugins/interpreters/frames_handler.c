/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Copies frames of CPython and PHP; in the signal handler, but for those of other threads. */
#include "frames.h"

ONSTACK_INTERNAL_DEFINE uint64_t onstack_fingerprint_named[ONSTACK_FINGERPRINT_PLACES];
ONSTACK_INTERNAL_DEFINE const onstack_python *onstack_python_found;
ONSTACK_INTERNAL_DEFINE onstack_php onstack_php_found;

#define FRAMES_STEPS 1024u /* frames that are looked at, those that are none of the language too */

/*
 * Frames of an interpreter lie in pieces of memory that grow upwards, callers below the called. One copy by the kernel takes
 * many neighbours at once: it costs hardly more than a copy of one.
 */

#define WINDOW_FRAME 112u  /* bytes of a frame at most */
#define WINDOW_BYTES 7168u /* of Python some 50 frames */

typedef struct frame_window {
  const onstack_frame_memory *memory;
  uint64_t piece;        /* where the newest piece begins; 0: not known */
  uint64_t low, high;    /* what of it is in `bytes` */
  uint8_t *frame;        /* room for a frame that lies elsewhere: WINDOW_FRAME */
  uint8_t *bytes;        /* WINDOW_BYTES */
  uint32_t fingerprints; /* that this sample still takes */
} frame_window;

#define WINDOW_PIECE_MOST ((uint64_t)1 << 24) /* bytes from a piece's beginning that are taken for its own */

/* Memory at an aligned address. */
static ONSTACK_HANDLER bool window_read(const onstack_frame_memory *memory, uint64_t address, void *to, uint32_t bytes) {
  return !(address & 7) && memory->read(address, to, bytes);
}

/* What ends with the frame, and begins with the piece at the earliest. */
static ONSTACK_HANDLER bool window_move(frame_window *window, uint64_t end) {
  const uint64_t low = end - window->piece < WINDOW_BYTES ? window->piece : end - WINDOW_BYTES;
  if (!window->memory->read(low, window->bytes, (uint32_t)(end - low))) return false;
  window->low = low;
  window->high = end;
  return true;
}

/* `size` bytes of a frame, valid until the next call; NULL: they cannot be read. */
static ONSTACK_HANDLER const uint8_t *window_frame(frame_window *window, uint64_t address, uint32_t size) {
  const uint64_t end = address + size;
  if (address & 7) return NULL;
  const bool inside = address >= window->low && end <= window->high;
  const bool near = window->piece != 0 && address > window->piece && address - window->piece < WINDOW_PIECE_MOST;
  if (inside || (near && window_move(window, end))) return window->bytes + (address - window->low);
  return window->memory->read(address, window->frame, size) ? window->frame : NULL;
}

#define PYTHON_THREAD_BYTES 320u /* at most, of a layout's thread_bytes */

typedef struct frames_scratch {
  uint8_t state[PYTHON_THREAD_BYTES]; /* of a thread of Python's, or PHP's globals */
  uint8_t frame[WINDOW_FRAME];
  uint8_t window[WINDOW_BYTES];
  uint8_t function[ONSTACK_FUNCTION_BYTES];
  uint64_t identity[ONSTACK_IDENTITY];
} frames_scratch;
_Static_assert(sizeof(frames_scratch) <= ONSTACK_FRAME_SCRATCH, "it has room");

static ONSTACK_HANDLER frame_window window_open(const onstack_frame_memory *memory, uint64_t piece) {
  frames_scratch *scratch = memory->scratch;
  return (frame_window){.memory = memory,
                        .piece = piece,
                        .frame = scratch->frame,
                        .bytes = scratch->window,
                        .fingerprints = ONSTACK_FINGERPRINTS};
}

ONSTACK_HANDLER uint32_t onstack_fingerprint_of(const uint64_t identity[ONSTACK_IDENTITY]) {
  uint64_t mixed = 0;
  for (uint32_t i = 0; i < ONSTACK_IDENTITY; i++) {
    mixed = (mixed ^ ((const volatile uint64_t *)identity)[i]) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
  }
  const uint32_t fingerprint = (uint32_t)(mixed >> 40);
  return fingerprint < ONSTACK_FINGERPRINT_FIRST ? fingerprint + ONSTACK_FINGERPRINT_FIRST : fingerprint;
}

/* For the flags of a frame. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER uint32_t frames_fingerprint(frame_window *window,
                                                                                         onstack_identify *identify,
                                                                                         uint64_t function) {
  frames_scratch *scratch = window->memory->scratch;
  if (onstack_fingerprint_is_named(function)) return ONSTACK_FINGERPRINT_NAMED << ONSTACK_INTERPRETED_OWN_SHIFT;
  if (window->fingerprints == 0 || !identify(window->memory, function, scratch->function, scratch->identity))
    return ONSTACK_FINGERPRINT_UNPROVEN << ONSTACK_INTERPRETED_OWN_SHIFT;
  window->fingerprints--;
  return onstack_fingerprint_of(scratch->identity) << ONSTACK_INTERPRETED_OWN_SHIFT;
}

/* ---- CPython ---- */

#define PYTHON_STATE_MOST 4096u /* bytes of a PyThreadState, with what lies in it */
#define PYTHON_POSITION_MAX (1u << 28)
#define PYTHON_STRING_LENGTH 16u /* PyASCIIObject.length */
#define PYTHON_STRING_STATE 16u  /* PyASCIIObject.state, from there on: bit 6 is `ascii` */
#define PYTHON_NAME_BYTES 144u   /* of a name, from there on, as far as it tells names apart */

/* The value of the interpreter's pthread key; 0: this is no thread of Python's. */
static ONSTACK_HANDLER uint64_t python_thread(const onstack_python *python, const onstack_frame_memory *memory) {
  uint64_t place = memory->thread_pointer + (uint64_t)python->key_offset, value;
  if (python->key_indirect) {
    if (!memory->read_own(place, &place)) return 0;
    place += 8 * python->key_index;
  }
  return memory->read_own(place, &value) ? value : 0;
}

/* The state at `thread`. False: there is none. */
static ONSTACK_HANDLER bool python_read_state(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                              uint64_t thread, uint8_t *state) {
  return thread != 0 && window_read(memory, thread, state, layout->thread_bytes) &&
         onstack_frames_word(state, layout->thread_interpreter) != 0;
}

/* The calling thread's; 0: it has none. */
static ONSTACK_HANDLER uint64_t python_own_state(const onstack_python *python, const onstack_frame_memory *memory,
                                                 uint8_t *state) {
  const onstack_python_layout *layout = python->layout;
  const uint64_t thread = python_thread(python, memory);
  if (!python_read_state(layout, memory, thread, state)) return 0;
  return onstack_frames_word(state, layout->thread_id) == memory->thread_pointer + python->self_offset ? thread : 0;
}

/* The innermost frame, and where the thread's newest chunk begins; 0: there is none. *outer: the frame that called the
   innermost call of the loop; 0: not known, or not asked for. */
static ONSTACK_HANDLER uint64_t python_innermost(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                                 uint64_t thread, const uint8_t *state, uint64_t *chunk, uint64_t *outer) {
  uint64_t frame = onstack_frames_word(state, layout->thread_frame);
  *outer = 0;
  if (layout->thread_place) *memory->place = onstack_frames_word(state, layout->thread_place);
  *chunk = layout->thread_chunk ? onstack_frames_word(state, layout->thread_chunk) : 0;
  if (layout->cframe_frame == ONSTACK_PYTHON_NO_CFRAME || frame == 0) return frame;
  if (frame - thread < PYTHON_STATE_MOST) return 0; /* the one in the state itself: no loop runs */
  if (layout->entry == ONSTACK_PYTHON_FLAG) *memory->place = frame;
  /* A loop that begins has not written it yet: what lies there may lead anywhere. */
  if (layout->entry == ONSTACK_PYTHON_FLAG && !(memory->read_own(frame + layout->cframe_previous, outer) &&
                                                memory->read(*outer + layout->cframe_frame, outer, sizeof(*outer))))
    *outer = 0;
  return memory->read_own(frame + layout->cframe_frame, &frame) ? frame : 0; /* on the stack */
}

static ONSTACK_HANDLER uint32_t python_half(const uint8_t *bytes, uint32_t offset) {
  return *(const volatile uint32_t *)(const void *)(bytes + offset);
}

/* Not by its own hash, which most names have, and others get when somebody asks. `bytes`: ONSTACK_FUNCTION_BYTES. */
static ONSTACK_HANDLER uint64_t python_name_hash(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                                 uint64_t name, uint8_t *bytes) {
  const uint64_t from = name + PYTHON_STRING_LENGTH;
  uint32_t size = PYTHON_NAME_BYTES; /* the name may end with its page */
  if (!window_read(memory, from, bytes, size) && !window_read(memory, from, bytes, size = 8)) return 0;
  const uint64_t length = onstack_frames_word(bytes, 0);
  uint64_t hash = length;
  /* Between them others keep what the name is in UTF-8, once somebody asks. */
  const bool ascii = size > PYTHON_STRING_STATE && bytes[PYTHON_STRING_STATE] >> 6 & 1;
  const uint32_t begin = (ascii ? layout->string_data : layout->string_wide) - PYTHON_STRING_LENGTH;
  for (uint32_t i = begin; i < size && i - begin < length; i++)
    hash = (hash ^ ((const volatile uint8_t *)bytes)[i]) * 0x100000001b3u; /* FNV-1a */
  return hash;
}

ONSTACK_HANDLER bool onstack_python_identify(const onstack_frame_memory *memory, uint64_t code, uint8_t *bytes,
                                             uint64_t identity[ONSTACK_IDENTITY]) {
  const onstack_python *python = onstack_frames_observe(&onstack_python_found);
  const onstack_python_layout *layout = python->layout;
  volatile uint64_t *words = identity;
  if (!window_read(memory, code, bytes, layout->code_table + (uint32_t)sizeof(uint64_t))) return false;
  if (onstack_frames_word(bytes, 8) != python->code_type) return false; /* PyObject.ob_type */
  words[ONSTACK_PYTHON_NAME] = onstack_frames_word(bytes, layout->code_name);
  words[ONSTACK_PYTHON_FILE] = onstack_frames_word(bytes, layout->code_file);
  words[ONSTACK_PYTHON_LINES] = onstack_frames_word(bytes, layout->code_table);
  words[ONSTACK_PYTHON_FIRST_LINE] = python_half(bytes, layout->code_line);
  if (layout->code_version) words[ONSTACK_PYTHON_FIRST_LINE] |= (uint64_t)python_half(bytes, layout->code_version) << 32;
  words[ONSTACK_PYTHON_NAME_HASH] = python_name_hash(layout, memory, words[ONSTACK_PYTHON_NAME], bytes);
  return true;
}

static ONSTACK_HANDLER onstack_interpreted_frame python_make(const onstack_python_layout *layout, const uint8_t *bytes,
                                                             uint64_t code) {
  onstack_interpreted_frame frame = {.function = code};
  if (layout->code_instructions == 0) {
    frame.position = (uint32_t)onstack_frames_word(bytes, layout->frame_instruction); /* f_lasti, an int */
  } else {
    const uint64_t offset = onstack_frames_word(bytes, layout->frame_instruction) - (code + layout->code_instructions);
    frame.position = offset < PYTHON_POSITION_MAX ? (uint32_t)offset : 0;
  }
  return frame;
}

/* The loop sets a frame's flag some instructions behind what leads here to the frame: so who calls it tells as well. */
static ONSTACK_HANDLER uint32_t python_follow(const onstack_python *python, frame_window *window, uint64_t address,
                                              uint64_t outer, onstack_interpreted_frame *frames, uint32_t capacity) {
  uint32_t count = 0;
  const onstack_python_layout *layout = python->layout;
  bool placed = false;
  for (uint32_t step = 0; address != 0; step++) {
    const uint8_t *bytes = step < FRAMES_STEPS ? window_frame(window, address, layout->frame_bytes) : NULL;
    if (!bytes) return count | ONSTACK_INTERPRETED_CUT;
    const uint64_t code = onstack_frames_word(bytes, layout->frame_code);
    const uint8_t entry = *(const volatile uint8_t *)(bytes + layout->frame_entry);
    const bool sentinel = layout->entry == ONSTACK_PYTHON_SENTINEL && entry == ONSTACK_PYTHON_ON_C_STACK;
    if (sentinel && !placed) *window->memory->place = address;
    placed |= sentinel;
    address = onstack_frames_word(bytes, layout->frame_previous);
    if (sentinel && count > 0 && !(frames[count - 1].flags & ONSTACK_INTERPRETED_ENTRY)) {
      frames[count - 1].flags |= ONSTACK_INTERPRETED_ENTRY;
      continue;
    }
    if (layout->frame_function && !sentinel && onstack_frames_word(bytes, layout->frame_function) == python->none) continue;
    if (count == capacity) return count | ONSTACK_INTERPRETED_CUT;
    frames[count] = python_make(layout, bytes, code);
    if (sentinel) /* a call of the loop that has just begun or is about to return */
      frames[count].flags = ONSTACK_INTERPRETED_ENTRY | ONSTACK_INTERPRETED_EMPTY;
    else if (layout->entry == ONSTACK_PYTHON_EACH ||
             (layout->entry == ONSTACK_PYTHON_FLAG && (entry || (address != 0 && address == outer))))
      frames[count].flags = ONSTACK_INTERPRETED_ENTRY;
    if (!sentinel) frames[count].flags |= frames_fingerprint(window, onstack_python_identify, code);
    count++;
  }
  return count;
}

static ONSTACK_HANDLER uint32_t python_copy_state(const onstack_python *python, const onstack_frame_memory *memory,
                                                  uint64_t thread, onstack_interpreted_frame *frames, uint32_t capacity) {
  const frames_scratch *scratch = memory->scratch;
  uint64_t outer, piece;
  const uint64_t innermost = python_innermost(python->layout, memory, thread, scratch->state, &piece, &outer);
  frame_window window = window_open(memory, piece);
  return innermost == 0 ? 0 : python_follow(python, &window, innermost, outer, frames, capacity);
}

ONSTACK_HANDLER uint32_t onstack_python_copy(void *data, const onstack_frame_memory *memory,
                                             onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)data;
  const onstack_python *python = onstack_frames_observe(&onstack_python_found);
  if (!python) return 0;
  frames_scratch *scratch = memory->scratch;
  const uint64_t thread = python_own_state(python, memory, scratch->state);
  return thread == 0 ? 0 : python_copy_state(python, memory, thread, frames, capacity);
}

/* ---- another thread, which is blocked; ordinary context ---- */

static bool python_is_of(const onstack_python_layout *layout, const onstack_frame_memory *memory, uint64_t thread,
                         uint8_t *state) {
  return python_read_state(layout, memory, thread, state) &&
         onstack_frames_word(state, layout->thread_native) == (uint64_t)memory->tid;
}

static uint64_t python_next(const onstack_frame_memory *memory, uint64_t address) {
  uint64_t next;
  return window_read(memory, address, &next, sizeof(next)) ? next : 0;
}

/* The lists change under the reader: a thread that is missed now is found by another look. */
static uint64_t python_state_of(const onstack_python *python, const onstack_frame_memory *memory, uint8_t *state) {
  const onstack_python_layout *layout = python->layout;
  uint64_t interpreter = python_next(memory, python->runtime + layout->runtime_interpreter);
  for (uint32_t step = 0; interpreter != 0 && step < FRAMES_STEPS; step++) {
    uint64_t thread = python_next(memory, interpreter + layout->interpreter_threads);
    for (; thread != 0 && step < FRAMES_STEPS; step++, thread = python_next(memory, thread + layout->thread_next))
      if (python_is_of(layout, memory, thread, state)) return thread;
    interpreter = python_next(memory, interpreter + layout->interpreter_next);
  }
  return 0;
}

uint32_t onstack_python_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)data;
  const onstack_python *python = onstack_frames_observe(&onstack_python_found);
  if (!python) return 0;
  const onstack_python_layout *layout = python->layout;
  frames_scratch *scratch = memory->scratch;
  if (layout->thread_native == 0) return 0;
  if (!python_is_of(layout, memory, *hint, scratch->state)) *hint = python_state_of(python, memory, scratch->state);
  return *hint == 0 ? 0 : python_copy_state(python, memory, *hint, frames, capacity);
}

/* ---- PHP ---- */

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

#define PHP_FUNCTION_BYTES 184u

ONSTACK_HANDLER bool onstack_php_identify(const onstack_frame_memory *memory, uint64_t function, uint8_t *bytes,
                                          uint64_t identity[ONSTACK_IDENTITY]) {
  const onstack_php_layout *layout = onstack_php_found.layout;
  volatile uint64_t *words = identity;
  uint64_t hash;
  const bool whole = window_read(memory, function, bytes, PHP_FUNCTION_BYTES);
  if (!whole && !window_read(memory, function, bytes, PHP_INTERNAL_BYTES)) return false;
  const uint64_t type = onstack_frames_word(bytes, PHP_FUNCTION_TYPE) & 0xff;
  if (type != ONSTACK_PHP_INTERNAL && (!whole || (type != ONSTACK_PHP_USER && type != ONSTACK_PHP_EVAL))) return false;
  words[ONSTACK_PHP_NAME] = onstack_frames_word(bytes, PHP_FUNCTION_NAME);
  words[ONSTACK_PHP_SCOPE] = onstack_frames_word(bytes, PHP_FUNCTION_SCOPE);
  words[ONSTACK_PHP_FILE] = type == ONSTACK_PHP_INTERNAL ? 0 : onstack_frames_word(bytes, layout->function_file);
  words[ONSTACK_PHP_OPCODES] = type == ONSTACK_PHP_INTERNAL ? 0 : onstack_frames_word(bytes, layout->function_opcodes);
  words[ONSTACK_PHP_OPCODES] |= type << 56;
  /* A file's own code has no name. */
  const bool hashed =
      words[ONSTACK_PHP_NAME] != 0 && window_read(memory, words[ONSTACK_PHP_NAME] + PHP_STRING_HASH, &hash, sizeof(hash));
  words[ONSTACK_PHP_NAME_HASH] = hashed ? hash : 0;
  return true;
}

static ONSTACK_HANDLER uint32_t php_follow(frame_window *window, uint64_t address, onstack_interpreted_frame *frames,
                                           uint32_t capacity) {
  uint32_t count = 0;
  for (uint32_t step = 0; address != 0; step++) {
    const uint8_t *bytes = step < FRAMES_STEPS ? window_frame(window, address, PHP_FRAME_BYTES) : NULL;
    if (!bytes) return count | ONSTACK_INTERPRETED_CUT;
    const uint64_t function = onstack_frames_word(bytes, PHP_FRAME_FUNCTION);
    address = onstack_frames_word(bytes, PHP_FRAME_PREVIOUS);
    if (function == 0) continue; /* between a generator and who resumes it */
    if (count == capacity) return count | ONSTACK_INTERPRETED_CUT;
    /* The lower half of the opcode's address: the other one is that of the function's opcodes. */
    frames[count].function = function;
    frames[count].position = (uint32_t)onstack_frames_word(bytes, PHP_FRAME_OPCODE);
    frames[count].flags = onstack_frames_word(bytes, PHP_FRAME_INFO) & PHP_INFO_TOP ? ONSTACK_INTERPRETED_ENTRY : 0;
    frames[count].flags |= frames_fingerprint(window, onstack_php_identify, function);
    count++;
  }
  return count;
}

static ONSTACK_HANDLER uint32_t php_copy(const onstack_frame_memory *memory, uint64_t globals,
                                         onstack_interpreted_frame *frames, uint32_t capacity) {
  const onstack_php_layout *layout = onstack_php_found.layout;
  frames_scratch *scratch = memory->scratch;
  const uint32_t offset = (uint32_t)(layout->globals_frame - layout->globals_page);
  if (!window_read(memory, globals + layout->globals_page, scratch->state, PHP_GLOBALS_BYTES)) return 0;
  frame_window window = window_open(memory, onstack_frames_word(scratch->state, 0));
  return php_follow(&window, onstack_frames_word(scratch->state, offset), frames, capacity);
}

ONSTACK_HANDLER uint32_t onstack_php_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                                          uint32_t capacity) {
  (void)data;
  if (!onstack_frames_observe(&onstack_php_found.ready)) return 0;
  const onstack_php *php = &onstack_php_found;
  uint64_t block;
  if (php->globals != 0) return php_copy(memory, php->globals, frames, capacity);
  /* A thread that never ran PHP has no block. */
  if (!memory->read_own(memory->thread_pointer + php->block_offset, &block) || block == 0) return 0;
  return php_copy(memory, block + php->globals_offset, frames, capacity);
}

uint32_t onstack_php_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                             onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)hint;
  const bool has_one = onstack_frames_observe(&onstack_php_found.ready) && onstack_php_found.globals != 0;
  return has_one ? onstack_php_copy(data, memory, frames, capacity) : 0;
}
