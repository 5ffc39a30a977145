/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CPython 3.9 to 3.13: what of it is known, and its frames, copied in the signal handler. Found by
 * sampler/interpreter/python.c, named by sampler/interpreter/python.c.
 *
 * A thread's state (PyThreadState) is the value of a pthread key, whether the thread holds the GIL or not. It leads to the
 * innermost frame: up to 3.10 a PyFrameObject, each in a call of the loop of its own (Include/cpython/frameobject.h); from
 * 3.11 on a _PyInterpreterFrame in a chunk of memory of the thread, where several belong to one call of the loop
 * (Include/internal/pycore_frame.h).
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PYTHON_H
#define ONSTACK_SAMPLER_INTERPRETER_PYTHON_H

#include "platform/defs.h"
#include "sampler/interpreter/interpreter.h"

#include "onstack/interpreter.h"

/* Where a frame says that native code called it. */
typedef enum onstack_python_entry {
  ONSTACK_PYTHON_EACH,     /* every frame is one: up to 3.10 */
  ONSTACK_PYTHON_FLAG,     /* is_entry: 3.11 */
  ONSTACK_PYTHON_SENTINEL, /* its caller is a frame on the native stack, which is none of the language: from 3.12 on */
} onstack_python_entry;

/* Offsets in bytes, of one version (tests/interpreters/python_layouts.c compares them with its headers). */
typedef struct onstack_python_layout {
  uint16_t version; /* 0x030b */
  onstack_python_entry entry;
  uint16_t runtime_key;         /* _PyRuntimeState: autoTSSkey */
  uint16_t runtime_interpreter; /* interpreters.head */
  uint16_t interpreter_next;    /* PyInterpreterState */
  uint16_t interpreter_threads; /* threads.head */
  uint16_t thread_next;         /* PyThreadState */
  uint16_t thread_native;       /* native_thread_id; 0: it does not say */
  uint16_t thread_interpreter;
  uint16_t thread_id;
  uint16_t thread_frame;              /* frame; cframe, which points to it; current_frame */
  uint16_t thread_place;              /* 3.10: cframe, which lies in the loop's native frame; 0: another word does */
  uint16_t cframe_frame;              /* _PyCFrame: current_frame; ONSTACK_PYTHON_NO_CFRAME */
  uint16_t cframe_previous;           /* with ONSTACK_PYTHON_FLAG */
  uint16_t thread_chunk;              /* datastack_chunk; 0: frames are objects */
  uint16_t thread_bytes, frame_bytes; /* that hold what is asked here */
  uint16_t frame_code, frame_previous, frame_instruction, frame_entry; /* frame_entry: is_entry, or owner */
  uint16_t frame_function;    /* None: it stands between a class and its __init__, and is none of the language; 0: no such */
  uint16_t code_instructions; /* PyCodeObject: co_code_adaptive. Up to 3.10 f_lasti is an index, and this 0 */
  uint16_t code_name, code_file, code_line, code_table;
  uint16_t code_version; /* another one for each code object; 0: there is none */
  uint16_t string_data;  /* PyASCIIObject's size, behind which the characters are; of others 16 or 24 more */
  uint16_t string_wide;
} onstack_python_layout;

#define ONSTACK_PYTHON_NO_CFRAME UINT16_MAX
#define ONSTACK_PYTHON_ON_C_STACK 3u /* frame_entry's value there */

/* An interpreter from its beginning to its end; another one may be loaded later, elsewhere and of another version. */
typedef struct onstack_python {
  const onstack_python_layout *layout;
  uint64_t runtime, code_type, string_type, none; /* of _PyRuntime, PyCode_Type, PyUnicode_Type, None */
  /* Where a thread has the key's value: at its thread pointer plus `key_offset`, or (`key_indirect`) in the array that a word
     there points to, at `key_index`. */
  int64_t key_offset;
  uint64_t key_index;
  bool key_indirect;
  uint32_t key;
  uint32_t loop_count;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
} onstack_python;

/* The one that there is, or was; what it points to never changes (publish / observe). NULL: none yet. */
ONSTACK_INTERNAL_DATA const onstack_python *onstack_python_found;

/* A code object's identity; FIRST_LINE: with its version in the upper half. */
enum { ONSTACK_PYTHON_NAME, ONSTACK_PYTHON_FILE, ONSTACK_PYTHON_LINES, ONSTACK_PYTHON_FIRST_LINE, ONSTACK_PYTHON_NAME_HASH };
#define ONSTACK_PYTHON_CODE_BYTES 208u /* of a PyCodeObject, as far as it is looked at */

/* The identity of a code object; `bytes`: ONSTACK_PYTHON_CODE_BYTES of scratch. False: there is none. Signal-safe, if
   `memory` is. */
ONSTACK_INTERNAL bool onstack_python_identify(const onstack_python *python, const onstack_frame_memory *memory,
                                              uint64_t code, uint8_t *bytes, uint64_t identity[ONSTACK_IDENTITY]);

/* onstack_frame_provider.copy; `data` is not used. */
ONSTACK_INTERNAL uint32_t onstack_python_copy(void *data, const onstack_frame_memory *memory,
                                              onstack_interpreted_frame *frames, uint32_t capacity);

/* onstack_frame_provider.copy_of, from 3.11 on. `hint`: the thread's state. */
ONSTACK_INTERNAL uint32_t onstack_python_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                                 onstack_interpreted_frame *frames, uint32_t capacity);

/* onstack_frame_provider.prepare; `data` is not used. Errors: ONSTACK_E_UNSUPPORTED, a version or a build that is not known. */
ONSTACK_INTERNAL int onstack_python_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

/* Whether the one that was prepared last is there, and has not ended or begun anew (Py_Finalize, Py_Initialize). Microseconds;
   ordinary threads. `loops` are not used. */
ONSTACK_INTERNAL bool onstack_python_lives(const onstack_loop_code *loops, uint32_t count);

/* onstack_frame_provider.describe; `data` is not used. */
ONSTACK_INTERNAL int onstack_python_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text);

/* Whether the frames that are copied are those of a thread's innermost calls of the loop: up to 3.11 a thread that runs a
   subinterpreter shows the main one's. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_python_is_innermost(void);

/* Tables of line numbers in CPython's code objects. Bytes of anybody's: nothing in them is believed. */

/* The line of a position (bytes of code), by the table of a version (0x030b); 0: the table does not say. */
ONSTACK_INTERNAL uint32_t onstack_python_line(uint16_t version, const uint8_t *table, size_t size, uint32_t first_line,
                                              uint32_t position);

#endif
