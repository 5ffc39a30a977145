// SPDX-License-Identifier: MIT OR Apache-2.0
// Compiled by every compiler in every standard, as C++ and as C (then it is header.c): the header stands alone, comes
// twice, and its structures can be filled in the way of each language.
#include <onstack/onstack.h>
#include <onstack/onstack.h>

static int receive(void *data, const onstack_sample *sample) {
  *(uint32_t *)data += sample->weight;
  return sample->truncation == ONSTACK_TRUNCATED_NOT ? 0 : ONSTACK_E_OUTPUT;
}

int header_is_used(void);
int header_is_used(void) {
  uint32_t weight = 0;
  onstack_options options;
  onstack_session *session = 0;
  int error = onstack_options_init(&options, sizeof(options));
  if (error < 0) return error;
  options.clock = ONSTACK_CLOCK_CPU;
  options.threads = ONSTACK_OFF;
  options.restore = ONSTACK_RESTORE_EXACT;
  options.sink = receive;
  options.sink_data = &weight;
  error = onstack_session_start(&options, &session);
  return error < 0 ? error : onstack_session_free(session);
}
