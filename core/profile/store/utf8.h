/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Characters of text that anybody made: names of files, threads and functions. */
#ifndef ONSTACK_PROFILE_STORE_UTF8_H
#define ONSTACK_PROFILE_STORE_UTF8_H

#include "platform/defs.h"

/* Length in bytes of the UTF-8 character at `text`, which has `left` bytes (at least 1); 0: it is none. */
ONSTACK_INTERNAL size_t onstack_profile_utf8_length(const char *text, size_t left);

/* Whether a terminal obeys the character instead of showing it, or some reader takes it for the end of a line: control
   characters, separators, and marks that order the text behind them anew. */
ONSTACK_INTERNAL bool onstack_profile_utf8_is_obeyed(const char *character, size_t length);

#endif
