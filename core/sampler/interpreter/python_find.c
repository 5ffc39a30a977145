/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds CPython by its exported symbols, and where a thread has its state. */
#include "sampler/interpreter/python_find.h"

#include "platform/atomics.h"
#include "sampler/interpreter/symbols.h"
#include "sampler/interpreter/thread_key.h"
#include "platform/process_memory.h"
#include "sampler/interpreter/python.h"

#include <errno.h>
#include <string.h>

/* From the headers of each version (Include/cpython, Include/internal); tests/interpreters compares. */
static const onstack_python_layout python_layouts[] = {
    {.version = 0x0309,
     .entry = ONSTACK_PYTHON_EACH,
     .runtime_key = 584,
     .runtime_interpreter = 32,
     .thread_interpreter = 16,
     .thread_id = 176,
     .thread_frame = 24,
     .cframe_frame = ONSTACK_PYTHON_NO_CFRAME,
     .thread_bytes = 184,
     .frame_bytes = 112,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_instruction = 104,
     .code_name = 112,
     .code_file = 104,
     .code_line = 40,
     .code_table = 120,
     .string_data = 48,
     .string_wide = 72},
    {.version = 0x030a,
     .entry = ONSTACK_PYTHON_EACH,
     .runtime_key = 584,
     .runtime_interpreter = 32,
     .thread_interpreter = 16,
     .thread_id = 176,
     .thread_frame = 24,
     .thread_place = 48,
     .cframe_frame = ONSTACK_PYTHON_NO_CFRAME,
     .thread_bytes = 184,
     .frame_bytes = 104,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_instruction = 96,
     .code_name = 112,
     .code_file = 104,
     .code_line = 40,
     .code_table = 120,
     .string_data = 48,
     .string_wide = 72},
    {.version = 0x030b,
     .entry = ONSTACK_PYTHON_FLAG,
     .runtime_key = 592,
     .runtime_interpreter = 40,
     .interpreter_next = 0,
     .interpreter_threads = 16,
     .thread_next = 8,
     .thread_native = 160,
     .thread_interpreter = 16,
     .thread_id = 152,
     .thread_frame = 56,
     .cframe_frame = 8,
     .cframe_previous = 16,
     .thread_chunk = 296,
     .thread_bytes = 304,
     .frame_bytes = 72,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_entry = 68,
     .code_instructions = 184,
     .code_name = 128,
     .code_file = 112,
     .code_line = 72,
     .code_table = 136,
     .string_data = 48,
     .string_wide = 72},
    {.version = 0x030c,
     .entry = ONSTACK_PYTHON_SENTINEL,
     .runtime_key = 1544,
     .runtime_interpreter = 40,
     .interpreter_next = 0,
     .interpreter_threads = 72,
     .thread_next = 8,
     .thread_native = 144,
     .thread_interpreter = 16,
     .thread_id = 136,
     .thread_frame = 56,
     .cframe_frame = 0,
     .thread_chunk = 232,
     .thread_bytes = 240,
     .frame_bytes = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_entry = 70,
     .code_instructions = 192,
     .code_name = 128,
     .code_file = 112,
     .code_line = 68,
     .code_table = 136,
     .code_version = 92,
     .string_data = 40,
     .string_wide = 56},
    {.version = 0x030d,
     .entry = ONSTACK_PYTHON_SENTINEL,
     .runtime_key = 2160,
     .runtime_interpreter = 632,
     .interpreter_next = 7264,
     .interpreter_threads = 7344,
     .thread_next = 8,
     .thread_native = 160,
     .thread_interpreter = 16,
     .thread_id = 152,
     .thread_frame = 72,
     .cframe_frame = ONSTACK_PYTHON_NO_CFRAME,
     .thread_chunk = 232,
     .thread_bytes = 240,
     .frame_bytes = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_entry = 70,
     .frame_function = 16,
     .code_instructions = 200,
     .code_name = 128,
     .code_file = 112,
     .code_line = 68,
     .code_table = 136,
     .code_version = 92,
     .string_data = 40,
     .string_wide = 56},
};

/* From 3.13 on _PyRuntime begins with what debuggers need (Include/internal/pycore_runtime.h, _Py_DebugOffsets). */
typedef struct python_debug_offsets {
  char cookie[8];
  uint64_t version, free_threaded;
  uint64_t runtime[3], interpreter[13];
  struct {
    uint64_t size, previous, next, interpreter, current_frame, id, native_id, chunk, status;
  } thread;
  struct {
    uint64_t size, previous, executable, instruction, locals, owner;
  } frame;
  struct {
    uint64_t size, file, name, qualified_name, table, first_line, arguments, local_names, local_kinds, instructions;
  } code;
} python_debug_offsets;

enum {
  PYTHON_RUNTIME,
  PYTHON_LOOP,
  PYTHON_CODE,
  PYTHON_STRING,
  PYTHON_NONE,
  PYTHON_VERSION,
  PYTHON_SINCE_3_10,
  PYTHON_SINCE_3_9
};
static const onstack_symbols_wanted python_wanted = {8,
                                                     5,
                                                     {"_PyRuntime", "_PyEval_EvalFrameDefault", "PyCode_Type",
                                                      "PyUnicode_Type", "_Py_NoneStruct", "Py_Version",
                                                      "PyModule_AddObjectRef", "PyThreadState_GetFrame"}};

static uint16_t python_version(const onstack_symbols_found *symbols) {
  uint64_t version = 0; /* unsigned long, as PY_VERSION_HEX */
  if (symbols->address[PYTHON_VERSION] == 0)
    return symbols->address[PYTHON_SINCE_3_10] ? 0x030a : symbols->address[PYTHON_SINCE_3_9] ? 0x0309 : 0;
  onstack_process_memory_copy(symbols->address[PYTHON_VERSION], &version, sizeof(version));
  return (uint16_t)(version >> 16);
}

static const onstack_python_layout *python_layout(uint16_t version) {
  for (size_t i = 0; i < ONSTACK_COUNT_OF(python_layouts); i++)
    if (python_layouts[i].version == version) return &python_layouts[i];
  return NULL;
}

/* What the interpreter says of itself counts: a build may differ. */
static bool python_agrees(const onstack_python_layout *layout, uint64_t runtime) {
  python_debug_offsets said;
  if (layout->version < 0x030d) return true;
  if (onstack_process_memory_copy(runtime, &said, sizeof(said)) != sizeof(said)) return false;
  return memcmp(said.cookie, "xdebugpy", sizeof(said.cookie)) == 0 && said.free_threaded == 0 &&
         said.thread.interpreter == layout->thread_interpreter && said.thread.current_frame == layout->thread_frame &&
         said.thread.id == layout->thread_id && said.thread.chunk == layout->thread_chunk &&
         said.frame.previous == layout->frame_previous && said.frame.executable == layout->frame_code &&
         said.frame.instruction == layout->frame_instruction && said.frame.owner == layout->frame_entry &&
         said.code.file == layout->code_file && said.code.qualified_name == layout->code_name &&
         said.code.table == layout->code_table && said.code.first_line == layout->code_line &&
         said.code.instructions == layout->code_instructions;
}

/* Py_tss_t: whether there is a key, and the key. False: the interpreter has not begun. */
static bool python_key(const onstack_python_layout *layout, uint64_t runtime, uint32_t *key) {
  uint32_t words[2] = {0, 0};
  uint64_t interpreter = 0;
  onstack_process_memory_copy(runtime + layout->runtime_key, words, sizeof(words));
  onstack_process_memory_copy(runtime + layout->runtime_interpreter, &interpreter, sizeof(interpreter));
  *key = words[1];
  return words[0] == 1 && interpreter != 0;
}

#define PYTHON_LIVES 16 /* interpreters that are told apart in a process, one after the other; later ones stay native */

static onstack_python python_lives[PYTHON_LIVES];
static uint32_t python_life_count;

static bool python_is(const onstack_python *one, const onstack_python *other) {
  return one->layout == other->layout && one->runtime == other->runtime && one->code_type == other->code_type &&
         one->string_type == other->string_type && one->none == other->none && one->key == other->key &&
         one->loops[0].low == other->loops[0].low && one->loops[0].high == other->loops[0].high;
}

/* One that has been there already, or a new one; NULL: it cannot be followed. */
static const onstack_python *python_life(const onstack_symbols_found *symbols, onstack_python *found) {
  onstack_thread_key place;
  for (uint32_t i = 0; i < python_life_count; i++)
    if (python_is(&python_lives[i], found)) return &python_lives[i];
  if (python_life_count == PYTHON_LIVES || !onstack_thread_key_find(found->key, &place)) return NULL;
  found->key_offset = place.offset;
  found->key_index = place.index;
  found->key_indirect = place.indirect;
  found->loop_count = (uint32_t)onstack_symbols_loop(symbols, PYTHON_LOOP, found->loops);
  python_lives[python_life_count] = *found;
  return &python_lives[python_life_count++];
}

int onstack_python_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data;
  static onstack_symbols_memory memory;
  onstack_symbols_found symbols;
  if (!onstack_symbols_look(&python_wanted, &memory, &symbols)) return 0;
  const uint64_t loop = symbols.address[PYTHON_LOOP];
  onstack_python found = {.layout = python_layout(python_version(&symbols)),
                          .runtime = symbols.address[PYTHON_RUNTIME],
                          .code_type = symbols.address[PYTHON_CODE],
                          .string_type = symbols.address[PYTHON_STRING],
                          .none = symbols.address[PYTHON_NONE],
                          .loops = {{loop, loop + symbols.size[PYTHON_LOOP]}}};
  if (!found.layout || !python_agrees(found.layout, found.runtime)) return ONSTACK_E_UNSUPPORTED;
  if (!python_key(found.layout, found.runtime, &found.key)) return -EAGAIN;
  const onstack_python *python = python_life(&symbols, &found);
  if (!python) return ONSTACK_E_UNSUPPORTED;
  onstack_publish(&onstack_python_found, python); /* pairs with the observe in sampler/interpreter/python_handler.c */
  for (uint32_t i = 0; i < python->loop_count; i++) loops[i] = python->loops[i];
  return (int)python->loop_count;
}

bool onstack_python_lives(const onstack_loop_code *loops, uint32_t count) {
  (void)loops, (void)count;
  const onstack_python *python = onstack_observe(&onstack_python_found);
  uint32_t key;
  return python && python_key(python->layout, python->runtime, &key) && key == python->key;
}
