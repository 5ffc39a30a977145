/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the public options and turns them into settled values: no zeros that mean something, no names. */
#ifndef ONSTACK_CONTROL_OPTIONS_H
#define ONSTACK_CONTROL_OPTIONS_H

#include "handler/unwinder.h"
#include "onstack/onstack.h"

typedef struct onstack_settings {
  uint64_t period_ns;
  uint32_t weight_max;
  uint32_t depth;
  uint32_t label_bytes;
  size_t buffer_bytes;
  int32_t signal;
  bool on_stack, threads, own_threads;
  onstack_restore restore;
  const onstack_unwinder_ops *unwinder;
  const onstack_unwinder *custom;
  uint32_t stack_bytes;
  onstack_sink sink;
  void *sink_data;
} onstack_settings;

/* `options` may be NULL. Returns 0 or ONSTACK_E_*; touches nothing outside `settings`. Any thread. */
ONSTACK_INTERNAL int onstack_options_settle(const onstack_options *options, onstack_settings *settings);

#endif
