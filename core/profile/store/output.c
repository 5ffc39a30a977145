/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/output.h"

#include "platform/exceptions.h"
#include "platform/own_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ONSTACK_OUTPUT_BYTES ((size_t)64 * 1024)

int onstack_profile_output_open(onstack_profile_output *output, onstack_writer writer, void *data) {
  *output = (onstack_profile_output){.writer = writer, .data = data, .buffer = malloc(ONSTACK_OUTPUT_BYTES)};
  return !output->buffer ? -ENOMEM : 0;
}

static void output_send(onstack_profile_output *output, const void *bytes, size_t length) {
  ONSTACK_STOP_EXCEPTIONS;
  const uint32_t ours = onstack_ours;
  if (output->error != 0 || length == 0) return;
  onstack_ours = 0; /* the writer is the host's */
  if (output->writer(output->data, bytes, length) != 0) output->error = ONSTACK_E_OUTPUT;
  onstack_ours = ours;
}

int onstack_profile_output_flush(onstack_profile_output *output) {
  output_send(output, output->buffer, output->used);
  output->used = 0;
  return output->error;
}

int onstack_profile_output_put(onstack_profile_output *output, const void *bytes, size_t length) {
  if (length > ONSTACK_OUTPUT_BYTES - output->used) onstack_profile_output_flush(output);
  if (length > ONSTACK_OUTPUT_BYTES) {
    output_send(output, bytes, length);
  } else if (length > 0) {
    memcpy(output->buffer + output->used, bytes, length);
    output->used += length;
  }
  return output->error;
}

int onstack_profile_output_close(onstack_profile_output *output, int error) {
  if (error == 0) error = onstack_profile_output_flush(output);
  free(output->buffer);
  *output = (onstack_profile_output){0};
  return error;
}
