/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bytes on their way to the host's writer: gathered, so that it is called a few times and not for each number. */
#ifndef ONSTACK_PROFILE_STORE_OUTPUT_H
#define ONSTACK_PROFILE_STORE_OUTPUT_H

#include "platform/defs.h"

#include "onstack/onstack.h"

typedef struct onstack_profile_output {
  onstack_writer writer;
  void *data;
  char *buffer;
  size_t used;
  int error; /* 0, or ONSTACK_E_OUTPUT: the writer refused, and is not called again */
} onstack_profile_output;

/* Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_output_open(onstack_profile_output *output, onstack_writer writer, void *data);
/* Passes on what is left (if `error` is 0) and releases. Returns `error`, or ONSTACK_E_OUTPUT. */
ONSTACK_INTERNAL int onstack_profile_output_close(onstack_profile_output *output, int error);
/* Both return output->error, so that a caller may look now and then only. */
ONSTACK_INTERNAL int onstack_profile_output_put(onstack_profile_output *output, const void *bytes, size_t length);
ONSTACK_INTERNAL int onstack_profile_output_flush(onstack_profile_output *output);

#endif
