/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/options.h"

#include "base/sized.h"
#include "control/choose.h"
#include "control/signal/action.h"

#include <signal.h>
#include <string.h>

/* The first structure, and so far the shortest: up to sink_data. */
#define OPTIONS_SIZE_0_1 ((size_t)64)
_Static_assert(offsetof(onstack_options, fork_sink_data) == OPTIONS_SIZE_0_1 && sizeof(onstack_options) == 96,
               "options grow at the end, and the old sizes stay known");

/* our own frames around the unwinder's, with a margin; measured by tests/core/test_stack_use.c */
#define OPTIONS_HANDLER_STACK 640u
#define OPTIONS_CUSTOM_STACK 1024u /* when a user's unwinder does not say */
#define OPTIONS_BUFFER_DEFAULT ((size_t)1 << 20)
#define OPTIONS_BUFFER_MIN ((size_t)1 << 16)
#define OPTIONS_BUFFER_MAX ((size_t)1 << 28)

int onstack_options_init(onstack_options *options, size_t size) {
  if (!options || size < OPTIONS_SIZE_0_1) return ONSTACK_E_VERSION;
  uint8_t *bytes = (uint8_t *)options;
  for (size_t i = 0; i < size; i++) bytes[i] = 0;
  options->size = (uint32_t)size;
  return 0;
}

static int options_copy(const onstack_options *from, onstack_options *to) {
  memset(to, 0, sizeof(*to));
  const int error = from ? onstack_sized_copy(to, sizeof(*to), OPTIONS_SIZE_0_1, from) : 0;
  if (error != 0) return error;
  for (size_t i = 0; i < sizeof(to->reserved0); i++)
    if (to->reserved0[i] != 0) return ONSTACK_E_OPTIONS;
  return to->label_bytes <= ONSTACK_MAX_LABEL_BYTES ? 0 : ONSTACK_E_OPTIONS;
}

static int options_check_switches(const onstack_options *options) {
  const uint8_t switches[] = {options->on_stack, options->threads, options->own_threads};
  for (size_t i = 0; i < sizeof(switches); i++)
    if (switches[i] > ONSTACK_OFF) return ONSTACK_E_OPTIONS;
  const onstack_clock_ops *clock = onstack_clock_find(options->clock);
  if (options->restore > ONSTACK_RESTORE_IGNORE || !clock || options->fork > ONSTACK_FORK_FOLLOW) return ONSTACK_E_OPTIONS;
  /* Asked for and never called would be a silent loss. */
  if (options->fork_sink_data && options->fork != ONSTACK_FORK_FOLLOW) return ONSTACK_E_OPTIONS;
  if (options->thread_filter && !clock->filters) return ONSTACK_E_OPTIONS;
  return 0;
}

/*
 * Signals that are more than a call of a handler: the kernel continues and stops processes by them, and takes back the
 * opposite, when they are generated (kernel/signal.c, prepare_signal); and over SIG_DFL, where we swallow what is
 * foreign, nobody could end the process by them any more.
 */
static int options_check_meaning(int signal) {
  static const int refused[] = {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGHUP, SIGINT,
                                SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(refused); i++)
    if (signal == refused[i]) return ONSTACK_E_SIGNAL;
  return 0;
}

static int options_set_unwinder(const onstack_options *options, onstack_settings *settings) {
  const onstack_unwinder *custom = options->custom_unwinder;
  settings->custom = custom;
  if (!custom) {
    settings->unwinder = onstack_unwinder_find(options->unwinder);
    if (!settings->unwinder) return ONSTACK_E_UNWINDER;
    settings->stack_bytes = settings->unwinder->stack_bytes + OPTIONS_HANDLER_STACK;
    return 0;
  }
  if (options->unwinder || custom->size < sizeof(*custom) || !custom->name || !custom->walk) return ONSTACK_E_UNWINDER;
  if (onstack_sized_check(custom, sizeof(*custom), sizeof(*custom)) < 0) return ONSTACK_E_OPTIONS;
  if (custom->stack_bytes > (1u << 30)) return ONSTACK_E_UNWINDER;
  settings->unwinder = &onstack_unwinder_custom;
  settings->stack_bytes = (custom->stack_bytes ? custom->stack_bytes : OPTIONS_CUSTOM_STACK) + OPTIONS_HANDLER_STACK;
  return 0;
}

static int options_set_sizes(const onstack_options *options, onstack_settings *settings) {
  settings->depth = options->max_depth ? options->max_depth : ONSTACK_DEFAULT_DEPTH;
  settings->label_bytes = options->label_bytes;
  if (settings->depth > ONSTACK_MAX_DEPTH) return ONSTACK_E_OPTIONS;
  size_t bytes = options->buffer_bytes ? options->buffer_bytes : OPTIONS_BUFFER_DEFAULT;
  if (bytes > OPTIONS_BUFFER_MAX) return ONSTACK_E_OPTIONS;
  settings->buffer_bytes = OPTIONS_BUFFER_MIN;
  while (settings->buffer_bytes < bytes) settings->buffer_bytes *= 2;
  return 0;
}

int onstack_settings_make(const onstack_options *given, onstack_settings *settings) {
  onstack_options options;
  int result = options_copy(given, &options);
  if (result < 0 || (result = options_check_switches(&options)) < 0) return result;
  settings->clock = onstack_clock_find(options.clock);
  if ((result = settings->clock->accept(&options, settings)) < 0) return result;
  settings->signal = options.signal ? options.signal : SIGPROF;
  if ((result = onstack_action_check_signal(settings->signal)) < 0) return result;
  if ((result = options_check_meaning(settings->signal)) < 0) return result;
  if ((result = options_set_unwinder(&options, settings)) < 0) return result;
  if ((result = options_set_sizes(&options, settings)) < 0) return result;
  settings->on_stack = options.on_stack != ONSTACK_OFF;
  settings->threads = options.threads != ONSTACK_OFF;
  settings->own_threads = options.own_threads == ONSTACK_ON;
  settings->restore = options.restore ? options.restore : ONSTACK_RESTORE_EXACT;
  settings->resumed = false;
  settings->fork = options.fork ? options.fork : ONSTACK_FORK_STOP;
  settings->fork_sink_data = options.fork_sink_data;
  settings->thread_filter = options.thread_filter;
  settings->thread_filter_data = options.thread_filter_data;
  settings->sink = options.sink;
  settings->sink_data = options.sink_data;
  return 0;
}
