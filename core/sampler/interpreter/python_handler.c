/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/python.h"

#include "platform/atomics.h"
#include "platform/context.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/unwind/memory.h"

ONSTACK_INTERNAL_DEFINE const onstack_python *onstack_python_found;

#define PYTHON_STEPS 1024u       /* frames that are looked at, those that are none of the language too */
#define PYTHON_THREAD_BYTES 320u /* at most, of a layout's thread_bytes */
#define PYTHON_STATE_MOST 4096u  /* bytes of a PyThreadState, with what lies in it */
#define PYTHON_POSITION_MAX (1u << 28)
#define PYTHON_STRING_LENGTH 16u /* PyASCIIObject.length */
#define PYTHON_STRING_STATE 16u  /* PyASCIIObject.state, from there on: bit 6 is `ascii` */
#define PYTHON_NAME_BYTES 144u   /* of a name, from there on, as far as it tells names apart */

/* In the scratch memory. */
typedef struct python_scratch {
  uint8_t thread[PYTHON_THREAD_BYTES];
  uint8_t frame[ONSTACK_WINDOW_FRAME];
  uint8_t window[ONSTACK_WINDOW_BYTES];
  uint8_t code[ONSTACK_PYTHON_CODE_BYTES];
  uint64_t identity[ONSTACK_IDENTITY];
} python_scratch;
_Static_assert(sizeof(python_scratch) <= ONSTACK_FRAME_SCRATCH, "it has room");

/* The value of the interpreter's pthread key; 0: this is no thread of Python's. */
static ONSTACK_HANDLER uint64_t python_thread(const onstack_python *python, const onstack_frame_memory *memory,
                                              uint64_t *self) {
  uint64_t place, value;
  *self = onstack_thread_pointer(); /* 0 on a thread of a raw clone: no address then */
  place = *self + (uint64_t)python->key_offset;
  if (python->key_indirect) {
    if (!memory->read_own(place, &place)) return 0;
    place += 8 * python->key_index;
  }
  return memory->read_own(place, &value) ? value : 0;
}

/* The state at `thread`. False: there is none. */
static ONSTACK_HANDLER bool python_read_state(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                              uint64_t thread, uint8_t *state) {
  return thread != 0 && onstack_window_read(memory, thread, state, layout->thread_bytes) &&
         onstack_window_word(state, layout->thread_interpreter) != 0;
}

/* The calling thread's; 0: it has none. That it is this thread's is proven where that can be had. */
static ONSTACK_HANDLER uint64_t python_own_state(const onstack_python *python, const onstack_frame_memory *memory,
                                                 uint8_t *state) {
  const onstack_python_layout *layout = python->layout;
  uint64_t self;
  const uint64_t thread = python_thread(python, memory, &self);
  if (!python_read_state(layout, memory, thread, state)) return 0;
  return !ONSTACK_ARCH_SELF_IS_POINTER || onstack_window_word(state, layout->thread_id) == self ? thread : 0;
}

/* Of what a provider that ships was called with (sampler/interpreter/interpreter.h). */
static ONSTACK_HANDLER void python_set_place(const onstack_frame_memory *memory, uint64_t place) {
  ((onstack_frame_place *)(uintptr_t)memory)->place = place;
}

/* The innermost frame, and where the thread's newest chunk begins; 0: there is none. *outer: the frame that called the
   innermost call of the loop; 0: not known, or not asked for. */
static ONSTACK_HANDLER uint64_t python_innermost(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                                 uint64_t thread, const uint8_t *state, uint64_t *chunk, uint64_t *outer) {
  uint64_t frame = onstack_window_word(state, layout->thread_frame);
  *outer = 0;
  if (layout->thread_place) python_set_place(memory, onstack_window_word(state, layout->thread_place));
  *chunk = layout->thread_chunk ? onstack_window_word(state, layout->thread_chunk) : 0;
  if (layout->cframe_frame == ONSTACK_PYTHON_NO_CFRAME || frame == 0) return frame;
  if (frame - thread < PYTHON_STATE_MOST) return 0; /* the one in the state itself: no loop runs */
  if (layout->entry == ONSTACK_PYTHON_FLAG) python_set_place(memory, frame);
  /* A loop that begins has not written it yet: what lies there may lead anywhere. */
  if (layout->entry == ONSTACK_PYTHON_FLAG && !(memory->read_own(frame + layout->cframe_previous, outer) &&
                                                memory->read(*outer + layout->cframe_frame, outer, sizeof(*outer))))
    *outer = 0;
  return memory->read_own(frame + layout->cframe_frame, &frame) ? frame : 0; /* on the stack */
}

static ONSTACK_HANDLER uint32_t python_half(const uint8_t *bytes, uint32_t offset) {
  return *(const volatile uint32_t *)(const void *)(bytes + offset);
}

/* Not by its own hash, which most names have, and others get when somebody asks. `bytes`: ONSTACK_PYTHON_CODE_BYTES. */
static ONSTACK_HANDLER uint64_t python_name_hash(const onstack_python_layout *layout, const onstack_frame_memory *memory,
                                                 uint64_t name, uint8_t *bytes) {
  const uint64_t from = name + PYTHON_STRING_LENGTH;
  uint32_t size = PYTHON_NAME_BYTES; /* the name may end with its page */
  if (!onstack_window_read(memory, from, bytes, size) && !onstack_window_read(memory, from, bytes, size = 8)) return 0;
  const uint64_t length = onstack_window_word(bytes, 0);
  uint64_t hash = length;
  /* Between them others keep what the name is in UTF-8, once somebody asks. */
  const bool ascii = size > PYTHON_STRING_STATE && bytes[PYTHON_STRING_STATE] >> 6 & 1;
  const uint32_t begin = (ascii ? layout->string_data : layout->string_wide) - PYTHON_STRING_LENGTH;
  for (uint32_t i = begin; i < size && i - begin < length; i++)
    hash = (hash ^ ((const volatile uint8_t *)bytes)[i]) * 0x100000001b3u; /* FNV-1a */
  return hash;
}

ONSTACK_HANDLER bool onstack_python_identify(const onstack_python *python, const onstack_frame_memory *memory, uint64_t code,
                                             uint8_t *bytes, uint64_t identity[ONSTACK_IDENTITY]) {
  const onstack_python_layout *layout = python->layout;
  volatile uint64_t *words = identity;
  if (!onstack_window_read(memory, code, bytes, layout->code_table + (uint32_t)sizeof(uint64_t))) return false;
  if (onstack_window_word(bytes, 8) != python->code_type) return false; /* PyObject.ob_type */
  words[ONSTACK_PYTHON_NAME] = onstack_window_word(bytes, layout->code_name);
  words[ONSTACK_PYTHON_FILE] = onstack_window_word(bytes, layout->code_file);
  words[ONSTACK_PYTHON_LINES] = onstack_window_word(bytes, layout->code_table);
  words[ONSTACK_PYTHON_FIRST_LINE] = python_half(bytes, layout->code_line);
  if (layout->code_version) words[ONSTACK_PYTHON_FIRST_LINE] |= (uint64_t)python_half(bytes, layout->code_version) << 32;
  words[ONSTACK_PYTHON_NAME_HASH] = python_name_hash(layout, memory, words[ONSTACK_PYTHON_NAME], bytes);
  return true;
}

/* For the flags of a frame; *left: how many more this sample takes. */
static ONSTACK_HANDLER uint32_t python_fingerprint(const onstack_python *python, const onstack_frame_memory *memory,
                                                   uint64_t code, uint32_t *left) {
  python_scratch *scratch = memory->scratch;
  if (onstack_fingerprint_is_named(code)) return ONSTACK_FINGERPRINT_NAMED << ONSTACK_FINGERPRINT_SHIFT;
  if (*left == 0 || !onstack_python_identify(python, memory, code, scratch->code, scratch->identity))
    return ONSTACK_FINGERPRINT_UNPROVEN << ONSTACK_FINGERPRINT_SHIFT;
  --*left;
  return onstack_fingerprint_of(scratch->identity) << ONSTACK_FINGERPRINT_SHIFT;
}

static ONSTACK_HANDLER onstack_interpreted_frame python_make(const onstack_python_layout *layout, const uint8_t *bytes,
                                                             uint64_t code) {
  onstack_interpreted_frame frame = {.function = code};
  if (layout->code_instructions == 0) {
    frame.position = (uint32_t)onstack_window_word(bytes, layout->frame_instruction); /* f_lasti, an int */
  } else {
    const uint64_t offset = onstack_window_word(bytes, layout->frame_instruction) - (code + layout->code_instructions);
    frame.position = offset < PYTHON_POSITION_MAX ? (uint32_t)offset : 0;
  }
  return frame;
}

/* The loop sets a frame's flag some instructions behind what leads here to the frame: so who calls it tells as well. */
static ONSTACK_HANDLER uint32_t python_follow(const onstack_python *python, onstack_window *window, uint64_t address,
                                              uint64_t outer, onstack_interpreted_frame *frames, uint32_t capacity) {
  uint32_t count = 0;
  const onstack_python_layout *layout = python->layout;
  uint32_t fingerprints = ONSTACK_FINGERPRINTS;
  bool placed = false;
  for (uint32_t step = 0; address != 0; step++) {
    const uint8_t *bytes = step < PYTHON_STEPS ? onstack_window_frame(window, address, layout->frame_bytes) : NULL;
    if (!bytes) return count | ONSTACK_INTERPRETED_CUT;
    const uint64_t code = onstack_window_word(bytes, layout->frame_code);
    const uint8_t entry = *(const volatile uint8_t *)(bytes + layout->frame_entry);
    const bool sentinel = layout->entry == ONSTACK_PYTHON_SENTINEL && entry == ONSTACK_PYTHON_ON_C_STACK;
    if (sentinel && !placed) python_set_place(window->memory, address);
    placed |= sentinel;
    address = onstack_window_word(bytes, layout->frame_previous);
    if (sentinel && count > 0 && !(frames[count - 1].flags & ONSTACK_INTERPRETED_ENTRY)) {
      frames[count - 1].flags |= ONSTACK_INTERPRETED_ENTRY;
      continue;
    }
    if (layout->frame_function && !sentinel && onstack_window_word(bytes, layout->frame_function) == python->none) continue;
    if (count == capacity) return count | ONSTACK_INTERPRETED_CUT;
    frames[count] = python_make(layout, bytes, code);
    if (sentinel) /* a call of the loop that has just begun or is about to return */
      frames[count].flags = ONSTACK_INTERPRETED_ENTRY | ONSTACK_INTERPRETED_EMPTY;
    else if (layout->entry == ONSTACK_PYTHON_EACH ||
             (layout->entry == ONSTACK_PYTHON_FLAG && (entry || (address != 0 && address == outer))))
      frames[count].flags = ONSTACK_INTERPRETED_ENTRY;
    if (!sentinel) frames[count].flags |= python_fingerprint(python, window->memory, code, &fingerprints);
    count++;
  }
  return count;
}

static ONSTACK_HANDLER uint32_t python_copy_state(const onstack_python *python, const onstack_frame_memory *memory,
                                                  uint64_t thread, onstack_interpreted_frame *frames, uint32_t capacity) {
  python_scratch *scratch = memory->scratch;
  onstack_window window = {.memory = memory, .frame = scratch->frame, .bytes = scratch->window};
  uint64_t outer;
  const uint64_t innermost = python_innermost(python->layout, memory, thread, scratch->thread, &window.piece, &outer);
  return innermost == 0 ? 0 : python_follow(python, &window, innermost, outer, frames, capacity);
}

ONSTACK_HANDLER uint32_t onstack_python_copy(void *data, const onstack_frame_memory *memory,
                                             onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)data;
  const onstack_python *python = onstack_observe(&onstack_python_found); /* pairs with sampler/interpreter/python.c */
  if (!python) return 0;
  python_scratch *scratch = memory->scratch;
  const uint64_t thread = python_own_state(python, memory, scratch->thread);
  return thread == 0 ? 0 : python_copy_state(python, memory, thread, frames, capacity);
}

/* ---- another thread, which is blocked; ordinary context ---- */

static bool python_is_of(const onstack_python_layout *layout, const onstack_frame_memory *memory, uint64_t thread,
                         uint8_t *state) {
  return python_read_state(layout, memory, thread, state) &&
         onstack_window_word(state, layout->thread_native) == (uint64_t)memory->tid;
}

static uint64_t python_next(const onstack_frame_memory *memory, uint64_t address) {
  uint64_t next;
  return onstack_window_read(memory, address, &next, sizeof(next)) ? next : 0;
}

/* The lists change under the reader: a thread that is missed now is found by another look. */
static uint64_t python_state_of(const onstack_python *python, const onstack_frame_memory *memory, uint8_t *state) {
  const onstack_python_layout *layout = python->layout;
  uint64_t interpreter = python_next(memory, python->runtime + layout->runtime_interpreter);
  for (uint32_t step = 0; interpreter != 0 && step < PYTHON_STEPS; step++) {
    uint64_t thread = python_next(memory, interpreter + layout->interpreter_threads);
    for (; thread != 0 && step < PYTHON_STEPS; step++, thread = python_next(memory, thread + layout->thread_next))
      if (python_is_of(layout, memory, thread, state)) return thread;
    interpreter = python_next(memory, interpreter + layout->interpreter_next);
  }
  return 0;
}

uint32_t onstack_python_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)data;
  const onstack_python *python = onstack_observe(&onstack_python_found);
  if (!python) return 0;
  const onstack_python_layout *layout = python->layout;
  python_scratch *scratch = memory->scratch;
  if (layout->thread_native == 0) return 0;
  if (!python_is_of(layout, memory, *hint, scratch->thread)) *hint = python_state_of(python, memory, scratch->thread);
  return *hint == 0 ? 0 : python_copy_state(python, memory, *hint, frames, capacity);
}
