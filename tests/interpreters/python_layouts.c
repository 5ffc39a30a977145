/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compares what the plug-in knows of a version of CPython with that version's headers. Compiled by run.sh, once for each. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>

#include "internal/pycore_interp.h"
#include "internal/pycore_pystate.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#endif

#include "plugins/interpreters/python.c"

#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX >= 0x030c0000
#define KEY offsetof(_PyRuntimeState, autoTSSkey)
#define ENTRY offsetof(_PyInterpreterFrame, owner)
#else
#define KEY offsetof(_PyRuntimeState, gilstate.autoTSSkey)
#if PY_VERSION_HEX >= 0x030b0000
#define ENTRY offsetof(_PyInterpreterFrame, is_entry)
#endif
#endif
#if PY_VERSION_HEX >= 0x030d0000
#define FRAME offsetof(PyThreadState, current_frame)
#define CFRAME ONSTACK_PYTHON_NO_CFRAME
#define CODE offsetof(_PyInterpreterFrame, f_executable)
#define INSTRUCTION offsetof(_PyInterpreterFrame, instr_ptr)
#elif PY_VERSION_HEX >= 0x030b0000
#define FRAME offsetof(PyThreadState, cframe)
#define CFRAME offsetof(_PyCFrame, current_frame)
#define CODE offsetof(_PyInterpreterFrame, f_code)
#define INSTRUCTION offsetof(_PyInterpreterFrame, prev_instr)
#else
#define FRAME offsetof(PyThreadState, frame)
#define CFRAME ONSTACK_PYTHON_NO_CFRAME
#endif

static int failed;

static void compare(const char *what, size_t known, size_t true_one) {
  if (known == true_one) return;
  printf("python %s: %s is %zu, not %zu\n", PY_VERSION, what, true_one, known);
  failed = 1;
}

int main(void) {
  const onstack_python_layout *layout = python_layout(PY_VERSION_HEX >> 16);
  if (!layout) {
    printf("python %s: not known\n", PY_VERSION);
    return 1;
  }
  compare("the key", layout->runtime_key, KEY);
  compare("where a key is in it", 4, offsetof(Py_tss_t, _key));
  compare("interpreters", layout->runtime_interpreter, offsetof(_PyRuntimeState, interpreters.head));
  compare("a thread's interpreter", layout->thread_interpreter, offsetof(PyThreadState, interp));
  compare("a thread's id", layout->thread_id, offsetof(PyThreadState, thread_id));
  compare("a thread's frame", layout->thread_frame, FRAME);
  compare("a cframe's frame", layout->cframe_frame, CFRAME);
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
  compare("the cframe before", layout->cframe_previous, offsetof(_PyCFrame, previous));
#endif
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030b0000
  compare("a thread's cframe", layout->thread_place, offsetof(PyThreadState, cframe));
#endif
#if PY_VERSION_HEX < 0x030c0000
  compare("the next interpreter's id", layout->runtime_interpreter + 16, offsetof(_PyRuntimeState, interpreters.next_id));
#endif
#if PY_VERSION_HEX >= 0x030b0000
  compare("an interpreter's threads", layout->interpreter_threads, offsetof(PyInterpreterState, threads.head));
  compare("the next interpreter", layout->interpreter_next, offsetof(PyInterpreterState, next));
  compare("the next thread", layout->thread_next, offsetof(PyThreadState, next));
  compare("the kernel's id", layout->thread_native, offsetof(PyThreadState, native_thread_id));
  compare("a thread's chunk", layout->thread_chunk, offsetof(PyThreadState, datastack_chunk));
  compare("a frame's code", layout->frame_code, CODE);
  compare("a frame's caller", layout->frame_previous, offsetof(_PyInterpreterFrame, previous));
  compare("a frame's instruction", layout->frame_instruction, INSTRUCTION);
  compare("how a frame was entered", layout->frame_entry, ENTRY);
  compare("a frame's bytes", layout->frame_bytes, offsetof(_PyInterpreterFrame, localsplus));
  compare("code's instructions", layout->code_instructions, offsetof(PyCodeObject, co_code_adaptive));
  compare("code's name", layout->code_name, offsetof(PyCodeObject, co_qualname));
#else
  compare("a frame's code", layout->frame_code, offsetof(PyFrameObject, f_code));
  compare("a frame's caller", layout->frame_previous, offsetof(PyFrameObject, f_back));
  compare("a frame's instruction", layout->frame_instruction, offsetof(PyFrameObject, f_lasti));
  compare("code's name", layout->code_name, offsetof(PyCodeObject, co_name));
#endif
#if PY_VERSION_HEX >= 0x030c0000
  compare("code's version", layout->code_version, offsetof(PyCodeObject, co_version));
#endif
#if PY_VERSION_HEX >= 0x030d0000
  compare("a frame's function", layout->frame_function, offsetof(_PyInterpreterFrame, f_funcobj));
#endif
#if PY_VERSION_HEX >= 0x030a0000
  compare("code's lines", layout->code_table, offsetof(PyCodeObject, co_linetable));
#else
  compare("code's lines", layout->code_table, offsetof(PyCodeObject, co_lnotab));
#endif
  compare("code's file", layout->code_file, offsetof(PyCodeObject, co_filename));
  compare("code's first line", layout->code_line, offsetof(PyCodeObject, co_firstlineno));
  compare("ASCII's characters", layout->string_data, sizeof(PyASCIIObject));
  compare("other characters", layout->string_wide, sizeof(PyCompactUnicodeObject));
  if (!failed) printf("python %s: as its headers say\n", PY_VERSION);
  return failed;
}
