/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is known of CPython and PHP, and what the parts of their providers share: frames_handler.c copies frames in the signal
 * handler, python.c and php.c find an interpreter and read its functions, names.c keeps what functions were called.
 *
 * The public header alone is included: another program can have such a provider, too.
 */
#ifndef ONSTACK_INTERPRETERS_FRAMES_H
#define ONSTACK_INTERPRETERS_FRAMES_H

#include "onstack/interpreters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The core has these names as well (core/platform/defs.h), for builds that compile all as one file. */
#ifndef ONSTACK_INTERNAL
#define ONSTACK_INTERNAL __attribute__((visibility("hidden")))
#define ONSTACK_INTERNAL_DATA extern __attribute__((visibility("hidden")))
#define ONSTACK_INTERNAL_DEFINE __attribute__((visibility("hidden")))
#define ONSTACK_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#if defined(__clang__)
#define ONSTACK_HANDLER __attribute__((no_stack_protector, no_sanitize("address", "thread", "undefined", "memory")))
#elif defined(__GNUC__) && __GNUC__ >= 11
#define ONSTACK_HANDLER __attribute__((no_stack_protector, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#else
#define ONSTACK_HANDLER __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif
#endif

#define onstack_frames_publish(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define onstack_frames_observe(place) __atomic_load_n(place, __ATOMIC_ACQUIRE) /* pairs with the publish */

/* ---- CPython 3.9 to 3.13 ---- */

/*
 * A thread's state (PyThreadState) is the value of a pthread key, whether the thread holds the GIL or not. It leads to the
 * innermost frame: up to 3.10 a PyFrameObject, each in a call of the loop of its own (Include/cpython/frameobject.h); from
 * 3.11 on a _PyInterpreterFrame in a chunk of memory of the thread, where several belong to one call of the loop
 * (Include/internal/pycore_frame.h).
 */

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
  uint64_t self_offset;                           /* from a thread's pointer to its pthread_self() */
  /* Where a thread has the key's value: at its thread pointer plus `key_offset`, or (`key_indirect`) in the array that a word
     there points to, at `key_index`. */
  int64_t key_offset;
  uint64_t key_index;
  bool key_indirect;
  uint32_t key;
  onstack_loop_code loop;
} onstack_python;

/* The one that there is, or was; what it points to never changes (publish / observe). NULL: none yet. */
ONSTACK_INTERNAL_DATA const onstack_python *onstack_python_found;

/* A code object's identity; FIRST_LINE: with its version in the upper half. */
enum { ONSTACK_PYTHON_NAME, ONSTACK_PYTHON_FILE, ONSTACK_PYTHON_LINES, ONSTACK_PYTHON_FIRST_LINE, ONSTACK_PYTHON_NAME_HASH };

/* ---- PHP 8.1 to 8.5 ---- */

/* executor_globals leads to the innermost zend_execute_data (Zend/zend_compile.h), whose neighbours lie in pages of 256 KiB. */

/* Offsets in bytes, of one version (tests/interpreters/php_layouts.c compares them with its headers). */
typedef struct onstack_php_layout {
  uint32_t version;          /* ZEND_MODULE_API_NO */
  uint16_t globals_page;     /* zend_executor_globals: vm_stack, */
  uint16_t globals_frame;    /* and current_execute_data, behind it */
  uint16_t function_last;    /* zend_op_array: how many opcodes, */
  uint16_t function_opcodes; /* and where they are */
  uint16_t function_file, function_line;
} onstack_php_layout;

typedef struct onstack_php {
  uint32_t ready; /* what follows is good, and stays (publish / observe) */
  const onstack_php_layout *layout;
  uint64_t loop;           /* execute_ex */
  uint64_t globals;        /* executor_globals; 0: with thread safety each thread has its own, */
  uint64_t block_offset;   /* in a block to which a word of its thread-local storage leads, at the thread pointer + this, */
  uint64_t globals_offset; /* and there */
} onstack_php;

ONSTACK_INTERNAL_DATA onstack_php onstack_php_found;

/* A function's identity; OPCODES: with its type in the top byte. */
enum { ONSTACK_PHP_NAME, ONSTACK_PHP_SCOPE, ONSTACK_PHP_FILE, ONSTACK_PHP_OPCODES, ONSTACK_PHP_NAME_HASH };

/* zend_function's types (Zend/zend_compile.h). */
#define ONSTACK_PHP_INTERNAL 1u
#define ONSTACK_PHP_USER 2u
#define ONSTACK_PHP_EVAL 4u

/* ---- functions, and how they are known again ---- */

/*
 * The fingerprint of a function is copied with its frames, in the upper bits of their flags: memory is used again, and
 * milliseconds later another function may lie there. Of functions that have been named, nothing is copied: they are compared
 * with what they were then (names.c), so that all this costs is the first sample of each.
 */

/* The words that tell a function from another at its address, by more than addresses: allocators give the memory of what has
   just been freed. */
#define ONSTACK_IDENTITY 5

#define ONSTACK_FINGERPRINT_NAMED 0u     /* it had been named when the frame was copied */
#define ONSTACK_FINGERPRINT_UNPROVEN 1u  /* it could not be read, or there were too many new ones */
#define ONSTACK_FINGERPRINT_FIRST 2u     /* others are hashes of its identity */
#define ONSTACK_FINGERPRINTS 64u         /* that a sample takes at most; each costs some two copies by the kernel */
#define ONSTACK_FINGERPRINT_PLACES 4096u /* a power of two */

/* Addresses of functions that have been named, each in its place; 0: none (publish / observe). */
ONSTACK_INTERNAL_DATA uint64_t onstack_fingerprint_named[ONSTACK_FINGERPRINT_PLACES];

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint32_t onstack_fingerprint_place(uint64_t function) {
  return (uint32_t)((function >> 4) * 0x9e3779b97f4a7c15u >> 40) & (ONSTACK_FINGERPRINT_PLACES - 1);
}

/* Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_fingerprint_is_named(uint64_t function) {
  return onstack_frames_observe(&onstack_fingerprint_named[onstack_fingerprint_place(function)]) == function;
}

/* What identify needs, and copy in the scratch memory. */
#define ONSTACK_FUNCTION_BYTES 208u /* of a PyCodeObject, or a zend_op_array, as far as it is looked at */

/* Writes the words by which a function is known again; `bytes`: ONSTACK_FUNCTION_BYTES of scratch. Returns false if there is
   none. Signal-safe, if `memory` is. */
typedef bool onstack_identify(const onstack_frame_memory *memory, uint64_t function, uint8_t *bytes,
                              uint64_t identity[ONSTACK_IDENTITY]);
ONSTACK_INTERNAL onstack_identify onstack_python_identify;
ONSTACK_INTERNAL onstack_identify onstack_php_identify;

/* The fingerprint of an identity, from ONSTACK_FINGERPRINT_FIRST on. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_fingerprint_of(const uint64_t identity[ONSTACK_IDENTITY]);

#define ONSTACK_NAMES_SCRATCH ((size_t)65536)

/* How functions of a language are named. */
typedef struct onstack_language {
  onstack_identify *identify;
  /* Names the frame of an identified function. `scratch`: ONSTACK_NAMES_SCRATCH bytes. Returns false if it cannot be read. */
  bool (*read)(const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
               const uint64_t identity[ONSTACK_IDENTITY], uint8_t *scratch, onstack_frame_text *text);
} onstack_language;

/*
 * Names a frame. It was copied with a fingerprint, and has a name if the function that lies there now has the same one, or the
 * one that lay there when it was named last. From then on frames are copied without: they have a name as long as the words are
 * what they were, and where no function lies there any more that of the one that was seen there some milliseconds before.
 * Returns 0, or -ESRCH if it cannot be told what the frame was. Ordinary threads, one at a time.
 */
ONSTACK_INTERNAL int onstack_names_describe(const onstack_language *language, const onstack_frame_memory *memory,
                                            const onstack_interpreted_frame *frame, onstack_frame_text *text);

/* A word in bytes that were copied; `offset` is a multiple of its size. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_frames_word(const uint8_t *bytes,
                                                                                                  uint32_t offset) {
  return *(const volatile uint64_t *)(const void *)(bytes + offset);
}

/* ---- the providers' functions ---- */

ONSTACK_INTERNAL uint32_t onstack_python_copy(void *data, const onstack_frame_memory *memory,
                                              onstack_interpreted_frame *frames, uint32_t capacity);
/* From 3.11 on. `hint`: the thread's state. */
ONSTACK_INTERNAL uint32_t onstack_python_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                                 onstack_interpreted_frame *frames, uint32_t capacity);
ONSTACK_INTERNAL uint32_t onstack_php_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                                           uint32_t capacity);
/* A process without thread safety has the frames of one thread; with it those of other threads are not found. */
ONSTACK_INTERNAL uint32_t onstack_php_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                              onstack_interpreted_frame *frames, uint32_t capacity);

ONSTACK_INTERNAL_DATA const onstack_frame_provider onstack_python_provider;
ONSTACK_INTERNAL_DATA const onstack_frame_provider onstack_php_provider;

#endif
