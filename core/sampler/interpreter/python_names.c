/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of CPython's frames, out of their code objects: read some milliseconds after the sample, and doubted. */
#include "sampler/interpreter/python_names.h"

#include "platform/atomics.h"
#include "platform/process_memory.h"
#include "sampler/interpreter/known.h"
#include "sampler/interpreter/python_lines.h"
#include "sampler/interpreter/python.h"

#include <errno.h>
#include <string.h>

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
