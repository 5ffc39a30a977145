/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of interpreted languages that samples were in, and their numbers: an address of such a frame is
 * ONSTACK_INTERPRETED_BYTE, a function's number (32 bits), a line (24 bits). They stay until the process ends, for profiles
 * that are written later; there is room for 65,536 functions and 16 MiB of text, of which only what is used is memory.
 */
#ifndef ONSTACK_PLATFORM_INTERPRETED_NAMES_H
#define ONSTACK_PLATFORM_INTERPRETED_NAMES_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* The address for a function at a line, new or known. Of a function that finds no room, or `text` NULL: that of a frame that
   cannot be named. Any ordinary thread; takes a lock of its own. */
ONSTACK_INTERNAL uint64_t onstack_interpreted_number(const char *language, const onstack_frame_text *text);
ONSTACK_INTERNAL bool onstack_interpreted_is_unnamed(uint64_t address);

/* Beside ONSTACK_INTERPRETED_*, in a frame that has been named: of a function in native code (ONSTACK_TEXT_NATIVE). */
#define ONSTACK_INTERPRETED_OF_NATIVE 0x80u

/* The provider names frames: their addresses come into the places of their functions. Any ordinary thread. */
ONSTACK_INTERNAL void onstack_interpreted_name_all(const onstack_frame_provider *provider, onstack_interpreted_frame *frames,
                                                   uint32_t count);

/* In the child of a fork: the lock is nobody's. */
ONSTACK_INTERNAL void onstack_interpreted_after_fork(void);

#endif
