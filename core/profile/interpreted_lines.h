/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Frames of interpreted languages in a profile: their names are asked for when it is written, symbolized or not. */
#ifndef ONSTACK_PROFILE_INTERPRETED_LINES_H
#define ONSTACK_PROFILE_INTERPRETED_LINES_H

#include "platform/interpreted.h"
#include "profile/elf/symbol_table.h"

/* onstack_interpreted_describe, set by the first session; NULL: there has been none (publish / observe). */
ONSTACK_INTERNAL_DATA int (*onstack_profile_interpreted)(uint64_t frame, onstack_frame_text *text);

/* Names the addresses of such frames. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_name_interpreted(onstack_symbol_table *table);

#endif
