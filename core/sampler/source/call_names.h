/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* System calls by name. */
#ifndef ONSTACK_SAMPLER_SOURCE_CALL_NAMES_H
#define ONSTACK_SAMPLER_SOURCE_CALL_NAMES_H

#include "platform/defs.h"

/* What a call's first argument is. */
typedef enum onstack_call_object {
  ONSTACK_CALL_ON_NOTHING,
  ONSTACK_CALL_ON_FILE,  /* a descriptor */
  ONSTACK_CALL_ON_WORD,  /* the address of a futex's word */
  ONSTACK_CALL_ON_FILES, /* the address of struct pollfd[], and their number */
} onstack_call_object;

typedef struct onstack_call_name {
  const char *name; /* static; NULL: not one of those that threads wait in */
  onstack_call_object object;
} onstack_call_name;

/* Any thread. */
ONSTACK_INTERNAL onstack_call_name onstack_call_name_of(int64_t number);

#endif
