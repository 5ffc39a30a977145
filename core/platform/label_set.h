/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A set of labels as the handler copies it. Never changed once others can see it; whoever lets it go last frees it. */
#ifndef ONSTACK_PLATFORM_LABEL_SET_H
#define ONSTACK_PLATFORM_LABEL_SET_H

#include "platform/defs.h"
#include "onstack/labels.h"

struct onstack_labels {
  uint64_t references;
  uint32_t bytes; /* of `text` */
  bool cut;       /* some of an outer set had no room */
  char text[];    /* "key\0value\0key\0value\0" */
};

/* The labels of `outer` (NULL: none) but the one of `key`; *out is NULL where none is left. Ordinary threads. Errors:
   OPTIONS (the key), -ENOMEM. */
ONSTACK_INTERNAL int onstack_label_set_without(const onstack_labels *outer, const char *key, onstack_labels **out);

#endif
