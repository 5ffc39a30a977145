/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When the addresses of a report were sampled, for sources of names that have times. One thread, one report; no lock. */
#ifndef ONSTACK_PROFILE_GENERATED_SPAN_NAMES_H
#define ONSTACK_PROFILE_GENERATED_SPAN_NAMES_H

#include "profile/elf/symbol_table.h"
#include "profile/generated/name_source.h"
#include "profile/store/stacks.h"

/* From the first sample of an address to the last. */
typedef struct onstack_generated_span {
  uint64_t first_ns, last_ns; /* monotonic; 0, UINT64_MAX: not known */
} onstack_generated_span;

/* Of all addresses of the table, by number, as the stacks tell; the caller's to free. NULL: no memory. */
ONSTACK_INTERNAL onstack_generated_span *onstack_generated_spans(const onstack_symbol_table *table,
                                                                 const onstack_name_context *context);

#endif
