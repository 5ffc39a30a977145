/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/python.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "sampler/interpreter/known.h"
#include "sampler/interpreter/symbols.h"
#include "sampler/unwind/memory.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Where libc keeps a thread's value of a pthread key: found by trying, for a handler that reads it by the kernel's copy. */

typedef struct onstack_thread_key {
  int64_t offset; /* from the thread pointer: to the value, or to the address of an array of values */
  uint64_t index; /* in that array */
  bool indirect;
} onstack_thread_key;

#define KEY_REACH 4096      /* bytes around the thread pointer that are searched */
#define KEY_FIRST_BLOCK 32u /* glibc (nptl/descr.h, PTHREAD_KEY_2NDLEVEL_SIZE): keys that lie in struct pthread itself */
#define KEY_MOST 1024u      /* PTHREAD_KEYS_MAX */

typedef struct key_test {
  pthread_key_t keys[2];
  uint64_t marks[2];
  uint64_t pointer;
} key_test;

static bool key_read(uint64_t address, uint64_t *word) {
  return onstack_process_memory_copy(address, word, sizeof(*word)) == sizeof(*word);
}

/* glibc: pairs of a sequence number and a value in struct pthread. */
static bool key_find_direct(const key_test *test, uint32_t key, onstack_thread_key *place) {
  if (key >= KEY_FIRST_BLOCK || test->keys[0] >= KEY_FIRST_BLOCK || test->keys[1] >= KEY_FIRST_BLOCK) return false;
  const int64_t apart = ((int64_t)test->keys[1] - (int64_t)test->keys[0]) * 16;
  for (int64_t at = -KEY_REACH; at < KEY_REACH; at += 8) {
    uint64_t words[2];
    if (!key_read(test->pointer + (uint64_t)at, &words[0]) || words[0] != test->marks[0]) continue;
    if (!key_read(test->pointer + (uint64_t)(at + apart), &words[1]) || words[1] != test->marks[1]) continue;
    *place = (onstack_thread_key){.offset = at + ((int64_t)key - (int64_t)test->keys[0]) * 16};
    return true;
  }
  return false;
}

/* musl: an array of values, whose address is in struct pthread (src/internal/pthread_impl.h, tsd). */
static bool key_find_indirect(const key_test *test, uint32_t key, onstack_thread_key *place) {
  if (key >= KEY_MOST) return false;
  for (int64_t at = -KEY_REACH / 8; at < KEY_REACH / 8; at += 8) {
    uint64_t array, word;
    bool is = key_read(test->pointer + (uint64_t)at, &array) && array != 0 && !(array & 7);
    for (int i = 0; is && i < 2; i++) is = key_read(array + 8 * (uint64_t)test->keys[i], &word) && word == test->marks[i];
    if (!is) continue;
    *place = (onstack_thread_key){.offset = at, .index = key, .indirect = true};
    return true;
  }
  return false;
}

/* False: libc keeps that key elsewhere (glibc beyond the 32nd). Ordinary threads; uses some keys for a moment. */
static bool thread_key_find(uint32_t key, onstack_thread_key *place) {
  key_test test = {.pointer = onstack_thread_pointer()};
  if (test.pointer == 0 || pthread_key_create(&test.keys[0], NULL) != 0) return false;
  bool found = pthread_key_create(&test.keys[1], NULL) == 0;
  if (found) {
    for (int i = 0; i < 2; i++) {
      test.marks[i] = (uint64_t)(uintptr_t)&test.marks[i]; /* no other word near the thread pointer has these */
      pthread_setspecific(test.keys[i], &test.marks[i]);
    }
    found = key_find_direct(&test, key, place) || key_find_indirect(&test, key, place);
    pthread_key_delete(test.keys[1]);
  }
  pthread_key_delete(test.keys[0]);
  return found;
}

#define LINES_UNIT 2u /* bytes of a code unit */
#define LINES_MOST 100000000u

/* Objects/lnotab_notes.txt (3.9): pairs of a distance in bytes and one in lines. */
static int64_t lines_of_3_9(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t at = 0;
  for (size_t i = 0; i + 2 <= size; i += 2) {
    at += table[i];
    if (at > position) break;
    line += (int8_t)table[i + 1];
  }
  return line;
}

/* Objects/lnotab_notes.txt (3.10): pairs of a length in bytes and a distance in lines, -128: no line. */
static int64_t lines_of_3_10(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t end = 0;
  for (size_t i = 0; i + 2 <= size; i += 2) {
    const int8_t delta = (int8_t)table[i + 1];
    end += table[i];
    if (delta != -128) line += delta;
    if (position < end) return delta == -128 ? 0 : line;
  }
  return 0;
}

/* Objects/locations.md (3.11): a zig-zag number of six bits a byte. */
static int64_t lines_signed(const uint8_t *table, size_t size, size_t at) {
  uint64_t value = 0;
  for (uint32_t shift = 0; at < size && shift < 60; at++, shift += 6) {
    value |= (uint64_t)(table[at] & 63) << shift;
    if (!(table[at] & 64)) break;
  }
  value = value >> 1 < LINES_MOST ? value : 0; /* no table of CPython's has more; and sums do not overflow */
  return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Objects/locations.md (3.11): entries whose first byte has its top bit set; a form, and a length in code units. */
static int64_t lines_of_3_11(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t end = 0;
  for (size_t i = 0; i < size;) {
    const uint32_t form = table[i] >> 3 & 15;
    end += ((table[i] & 7u) + 1) * LINES_UNIT;
    if (form == 13 || form == 14) line += lines_signed(table, size, i + 1);
    if (form >= 10 && form <= 12) line += form - 10;
    if (position < end) return form == 15 ? 0 : line;
    for (i++; i < size && !(table[i] & 128); i++) continue;
  }
  return 0;
}

uint32_t onstack_python_line(uint16_t version, const uint8_t *table, size_t size, uint32_t first_line, uint32_t position) {
  int64_t line = version >= 0x030b   ? lines_of_3_11(table, size, first_line, position)
                 : version == 0x030a ? lines_of_3_10(table, size, first_line, position * LINES_UNIT)
                                     : lines_of_3_9(table, size, first_line, position);
  return line > 0 && line < (int64_t)LINES_MOST ? (uint32_t)line : 0;
}

/* Finds CPython by its exported symbols, and where a thread has its state. */

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
  onstack_thread_key place = {0};
  for (uint32_t i = 0; i < python_life_count; i++)
    if (python_is(&python_lives[i], found)) return &python_lives[i];
  if (python_life_count == PYTHON_LIVES || !thread_key_find(found->key, &place)) return NULL;
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

/* Names of CPython's frames, out of their code objects: read some milliseconds after the sample, and doubted. */

#define PYTHON_BYTES_DATA 32u /* PyBytesObject.ob_sval */

static bool python_identify(const onstack_interpreted_frame *frame, uint64_t identity[ONSTACK_IDENTITY]) {
  uint8_t bytes[ONSTACK_PYTHON_CODE_BYTES];
  return onstack_python_identify(onstack_observe(&onstack_python_found), &onstack_known_memory, frame->function, bytes,
                                 identity);
}

static size_t python_put(char *out, uint32_t character) {
  if (character < 0x80) {
    out[0] = character == 0 ? ' ' : (char)character;
    return 1;
  }
  if (character < 0x800) {
    out[0] = (char)(0xc0 | character >> 6);
    out[1] = (char)(0x80 | (character & 63));
    return 2;
  }
  if (character < 0x10000) {
    out[0] = (char)(0xe0 | character >> 12);
    out[1] = (char)(0x80 | (character >> 6 & 63));
    out[2] = (char)(0x80 | (character & 63));
    return 3;
  }
  out[0] = (char)(0xf0 | (character >> 18 & 7));
  out[1] = (char)(0x80 | (character >> 12 & 63));
  out[2] = (char)(0x80 | (character >> 6 & 63));
  out[3] = (char)(0x80 | (character & 63));
  return 4;
}

/* Lone surrogates, in names of files that are not UTF-8 (PEP 383), and what is no character at all. */
static uint32_t python_character(const uint8_t *bytes, uint32_t kind, size_t i) {
  uint32_t character = 0;
  memcpy(&character, bytes + i * kind, kind);
  return (character >= 0xd800 && character < 0xe000) || character > 0x10ffff ? '?' : character;
}

/* A compact str (Include/cpython/unicodeobject.h) as UTF-8, cut where it is longer. Of 3.9 to 3.13, without free threads. */
static bool python_string(const onstack_python *python, uint64_t address, char *out, size_t capacity) {
  uint8_t head[40], data[512];
  size_t used = 0;
  if (!onstack_process_memory_read(address, head, sizeof(head))) return false;
  const uint64_t length = onstack_known_word(head, 16);
  const uint32_t state = (uint32_t)onstack_known_word(head, 32), kind = state >> 2 & 7;
  const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
  if (onstack_known_word(head, 8) != python->string_type || !compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  const size_t most = sizeof(data) / kind, count = length < most ? (size_t)length : most;
  const uint64_t from = address + (ascii ? python->layout->string_data : python->layout->string_wide);
  if (!onstack_process_memory_read(from, data, count * kind)) return false;
  for (size_t i = 0; i < count && used + 5 <= capacity; i++) used += python_put(out + used, python_character(data, kind, i));
  out[used] = 0;
  return used > 0;
}

static uint32_t python_line_of(const onstack_python *python, const uint64_t identity[ONSTACK_IDENTITY], uint32_t position,
                               uint8_t *table) {
  uint8_t head[PYTHON_BYTES_DATA];
  if (!onstack_process_memory_read(identity[ONSTACK_PYTHON_LINES], head, sizeof(head))) return 0;
  const uint64_t size = onstack_known_word(head, 16); /* PyVarObject.ob_size */
  const size_t bytes = size < ONSTACK_KNOWN_SCRATCH ? (size_t)size : ONSTACK_KNOWN_SCRATCH;
  if (!onstack_process_memory_read(identity[ONSTACK_PYTHON_LINES] + PYTHON_BYTES_DATA, table, bytes)) return 0;
  return onstack_python_line(python->layout->version, table, bytes, (uint32_t)identity[ONSTACK_PYTHON_FIRST_LINE], position);
}

static bool python_read(const onstack_interpreted_frame *frame, const uint64_t identity[ONSTACK_IDENTITY], uint8_t *scratch,
                        onstack_frame_text *text) {
  const onstack_python *python = onstack_observe(&onstack_python_found);
  if (!python_string(python, identity[ONSTACK_PYTHON_NAME], text->function, sizeof(text->function))) return false;
  if (!python_string(python, identity[ONSTACK_PYTHON_FILE], text->file, sizeof(text->file))) text->file[0] = 0;
  text->start_line = (uint32_t)identity[ONSTACK_PYTHON_FIRST_LINE];
  text->line = python_line_of(python, identity, frame->position, scratch);
  return true;
}

bool onstack_python_is_innermost(void) {
  const onstack_python *python = onstack_observe(&onstack_python_found);
  int64_t next = 2; /* interpreters.next_id, behind the first and the main one: never less than it was */
  if (python->layout->version >= 0x030c) return true; /* the key has the state of the interpreter that runs */
  onstack_process_memory_read(python->runtime + python->layout->runtime_interpreter + 16, &next, sizeof(next));
  return next == 1;
}

static const onstack_known_reader python_reader = {python_identify, python_read};

int onstack_python_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text) {
  (void)data;
  return onstack_observe(&onstack_python_found) ? onstack_known_describe(&python_reader, frame, text) : -ESRCH;
}
