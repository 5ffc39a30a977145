/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The addresses of frames of interpreted languages: no process has code there. */
#ifndef ONSTACK_PLATFORM_INTERPRETED_H
#define ONSTACK_PLATFORM_INTERPRETED_H

#include "platform/defs.h"
#include "onstack/interpreter.h"

#define ONSTACK_INTERPRETED_LINE_BITS 24
#define ONSTACK_INTERPRETED_LINES (((uint64_t)1 << ONSTACK_INTERPRETED_LINE_BITS) - 1)
#define ONSTACK_INTERPRETED_ADDRESS(function, line)                                                                         \
  ((uint64_t)ONSTACK_INTERPRETED_BYTE << 56 | (uint64_t)(function) << ONSTACK_INTERPRETED_LINE_BITS |                       \
   ((uint64_t)(line) <= ONSTACK_INTERPRETED_LINES ? (uint64_t)(line) : 0))
#define ONSTACK_INTERPRETED_FUNCTION(address) ((uint32_t)((address) >> ONSTACK_INTERPRETED_LINE_BITS))
#define ONSTACK_INTERPRETED_LINE(address) ((uint32_t)((address)&ONSTACK_INTERPRETED_LINES))

static inline __attribute__((unused)) bool onstack_is_interpreted(uint64_t address) {
  return address >> 56 == ONSTACK_INTERPRETED_BYTE;
}

/*
 * The functions of interpreted languages that samples were in, and their numbers: an address of such a frame is
 * ONSTACK_INTERPRETED_BYTE, a function's number (32 bits), a line (24 bits). They stay until the process ends, for profiles
 * that are written later; there is room for 65,536 functions and 16 MiB of text, of which only what is used is memory.
 */

/* The address for a function at a line, new or known. Of a function that finds no room, or `text` NULL: that of a frame that
   cannot be named. Any ordinary thread; takes a lock of its own. */
ONSTACK_INTERNAL uint64_t onstack_interpreted_number(const char *language, const onstack_frame_text *text);
ONSTACK_INTERNAL bool onstack_interpreted_is_unnamed(uint64_t address);

/* Memory for a provider's functions in ordinary threads: the kernel copies, because other threads go on. */
ONSTACK_INTERNAL uint32_t onstack_copied_read(uint64_t address, void *to, uint32_t bytes);
ONSTACK_INTERNAL uint32_t onstack_copied_read_word(uint64_t address, uint64_t *word);
ONSTACK_INTERNAL_DATA const onstack_frame_memory onstack_copied_memory;

/* Beside ONSTACK_INTERPRETED_*, in a frame that has been named: of a function in native code (ONSTACK_TEXT_NATIVE). */
#define ONSTACK_INTERPRETED_OF_NATIVE 0x80u

/* The provider names frames: their addresses come into the places of their functions. Any ordinary thread. */
ONSTACK_INTERNAL void onstack_interpreted_name_all(const onstack_frame_provider *provider, onstack_interpreted_frame *frames,
                                                   uint32_t count);

/* In the child of a fork: nobody holds the locks. */
ONSTACK_INTERNAL void onstack_interpreted_after_fork(void);

#endif
