/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * PHP 8.1 to 8.5: what of it is known, and its frames, copied in the signal handler. Found and named by php.c.
 *
 * executor_globals leads to the innermost zend_execute_data (Zend/zend_compile.h), whose neighbours lie in pages of 256 KiB.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PHP_H
#define ONSTACK_SAMPLER_INTERPRETER_PHP_H

#include "platform/defs.h"
#include "sampler/interpreter/interpreter.h"

#include "onstack/interpreter.h"

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
#define ONSTACK_PHP_FUNCTION_BYTES 184u

/* zend_function's types (Zend/zend_compile.h). */
#define ONSTACK_PHP_INTERNAL 1u
#define ONSTACK_PHP_USER 2u
#define ONSTACK_PHP_EVAL 4u

/* The identity of a function; `bytes`: ONSTACK_PHP_FUNCTION_BYTES of scratch. False: there is none. Signal-safe, if `memory`
   is. */
ONSTACK_INTERNAL bool onstack_php_identify(const onstack_frame_memory *memory, uint64_t function, uint8_t *bytes,
                                           uint64_t identity[ONSTACK_IDENTITY]);

/* onstack_frame_provider.copy; `data` is not used. */
ONSTACK_INTERNAL uint32_t onstack_php_copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                                           uint32_t capacity);

/* onstack_frame_provider.copy_of: a process without thread safety has the frames of one thread; with it those of other threads
   are not found. `hint` is not used. */
ONSTACK_INTERNAL uint32_t onstack_php_copy_of(void *data, const onstack_frame_memory *memory, uint64_t *hint,
                                              onstack_interpreted_frame *frames, uint32_t capacity);

/* onstack_frame_provider.prepare; `data` is not used. Errors: ONSTACK_E_UNSUPPORTED, a version or a build that is not known. */
ONSTACK_INTERNAL int onstack_php_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

/* Whether the loops that were told are all the code that is known by now: a compiler may have begun. Any thread. */
ONSTACK_INTERNAL bool onstack_php_lives(const onstack_loop_code *loops, uint32_t count);

/* onstack_frame_provider.describe; `data` is not used. */
ONSTACK_INTERNAL int onstack_php_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text);

#endif
