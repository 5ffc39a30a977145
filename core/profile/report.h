/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What both writers begin with: checked options, a view of the profile, its addresses and their names. */
#ifndef ONSTACK_PROFILE_REPORT_H
#define ONSTACK_PROFILE_REPORT_H

#include "platform/defs.h"
#include "platform/interpreted.h"
#include "profile/elf/symbol_table.h"
#include "profile/profile.h"

/* The name of the frame that holds what came after max_stacks. */
#define ONSTACK_PROFILE_OVERFLOW_FRAME "[onstack: too many stacks]"

typedef struct onstack_profile_report {
  onstack_profile *profile;
  onstack_profile_view view;
  onstack_symbol_table symbols;
  uint32_t *numbers; /* of an address of the view, its number in `symbols`; there for those of the view's stacks */
  bool symbolized;
  int64_t start_unix_ns;
  int64_t duration_ns;
  const char *comments; /* the caller's */
  uint64_t period;      /* of a profile without samples */
  onstack_kind kind;    /* the only one that was asked for; 0: all */
} onstack_profile_report;

/*
 * `always_names`: addresses are named by module and offset even when the caller wants no symbols.
 * Errors: ONSTACK_E_OPTIONS, -ENOMEM, the symbolizer's (nothing to close).
 */
ONSTACK_INTERNAL int onstack_profile_report_open(onstack_profile_report *report, onstack_profile *profile,
                                                 const onstack_write_options *options, bool always_names);
ONSTACK_INTERNAL void onstack_profile_report_close(onstack_profile_report *report);

/* What is said of stacks that were cut short. All strings are static. */

/*
 * The name of the frame that stands in for the missing callers of a stack cut short, so that nobody takes its last
 * frame for a root. NULL where none is missing (the stack is whole) or none was asked for.
 */
ONSTACK_INTERNAL const char *onstack_profile_truncation_frame(uint32_t truncation);

/* The reason's key in lines of statistics; NULL: none. */
ONSTACK_INTERNAL const char *onstack_profile_truncation_key(uint32_t truncation);

/* Frames of interpreted languages in a profile: their names are asked for when it is written, symbolized or not. */

/* onstack_interpreted_describe, set by the first session; NULL: there has been none (publish / observe). */
ONSTACK_INTERNAL_DATA int (*onstack_profile_interpreted)(uint64_t frame, onstack_frame_text *text);

#endif
