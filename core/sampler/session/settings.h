/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the options of a session come to (sampler/api/options.h): no zeros that mean something, no names. */
#ifndef ONSTACK_SAMPLER_SESSION_SETTINGS_H
#define ONSTACK_SAMPLER_SESSION_SETTINGS_H

#include "sampler/interpreter/interpreter.h"
#include "sampler/unwind/unwinder.h"
#include "onstack/onstack.h"

typedef struct onstack_settings {
  uint64_t period; /* in the source's unit */
  uint32_t heap_objects;
  uint32_t weight_max;
  const struct onstack_source *source; /* sampler/source/source.h */
  int (*thread_filter)(void *data, int32_t tid, const char *thread_name);
  void *thread_filter_data;
  onstack_interpreter_list interpreters;
  uint32_t depth;
  uint32_t label_bytes;
  size_t buffer_bytes;
  int32_t signal; /* 0: the source needs none */
  bool on_stack, threads, own_threads;
  bool at_once; /* ticks begin before rules are derived: the first stacks are cut rather than missing */
  bool resumed; /* in the child of a fork, see onstack_fork_set_follow: nothing that may wait or read files */
  onstack_restore restore;
  onstack_fork fork;
  const onstack_unwinder_ops *unwinder;
  const onstack_unwinder *custom;
  uint32_t stack_bytes;
  onstack_sink sink;
  void *sink_data;
  void *(*fork_sink_data)(void *sink_data);
} onstack_settings;

#endif
