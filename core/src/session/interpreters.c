/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "session/interpreters.h"

#include "base/clock_ns.h"
#include "base/exceptions.h"
#include "base/interpreted_names.h"
#include "control/fork.h"
#include "control/interpreter/php.h"
#include "control/interpreter/python.h"
#include "control/options.h"
#include "drain/interpreter/known.h"
#include "drain/interpreter/php.h"
#include "drain/interpreter/python.h"
#include "handler/interpreter/php.h"
#include "handler/interpreter/python.h"
#include "profile/interpreted_lines.h"

#include <errno.h>
#include <stdlib.h>

/* Between two looks for an interpreter that is loaded and has not begun. */
#define INTERPRETERS_PAUSE_NS 20000000u

static const onstack_frame_provider interpreters_python = {.size = sizeof(onstack_frame_provider),
                                                           .stack_bytes = 512, /* gcc -fstack-usage: 312 */
                                                           .name = "python",
                                                           .prepare = onstack_python_prepare,
                                                           .copy = onstack_python_copy,
                                                           .copy_of = onstack_python_copy_of,
                                                           .describe = onstack_python_describe};

static const onstack_frame_provider interpreters_php = {.size = sizeof(onstack_frame_provider),
                                                        .stack_bytes = 512,
                                                        .name = "php",
                                                        .prepare = onstack_php_prepare,
                                                        .copy = onstack_php_copy,
                                                        .copy_of = onstack_php_copy_of,
                                                        .describe = onstack_php_describe};

static const onstack_interpreter_list interpreters_shipped = {2, {&interpreters_python, &interpreters_php}};

static void interpreters_after_fork(void) {
  onstack_interpreted_after_fork();
  onstack_known_after_fork();
}

void onstack_interpreters_ship(void) {
  onstack_options_ship(&interpreters_shipped);
  onstack_publish(&onstack_profile_interpreted, &onstack_interpreted_describe);
  onstack_fork_set_interpreters(interpreters_after_fork);
}

/* False: it is to be asked again soon. */
static bool interpreters_ask(onstack_slot *slot, onstack_interpreter *interpreter) {
  ONSTACK_STOP_EXCEPTIONS;
  const onstack_frame_provider *provider = interpreter->provider;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
  const int found = provider->prepare(provider->data, loops);
  if (found == 0 || found == -EAGAIN) return found == 0;
  interpreter->refused = found < 0 || found > ONSTACK_LOOP_CODES;
  if (interpreter->refused) return true;
  for (int i = 0; i < found; i++) interpreter->loops[i] = loops[i];
  interpreter->loop_count = (uint32_t)found;
  interpreter->tells = provider == &interpreters_python ? onstack_python_is_innermost : NULL;
  onstack_ring_make_room(&slot->ring, ONSTACK_INTERPRETED_BYTES(slot->ring.depth)); /* not before: entries are large by it */
  onstack_publish(&interpreter->ready, 1u); /* pairs with the observe in handler/interpreter/interpreter.c */
  return true;
}

static bool interpreters_is_missing(const onstack_interpreter *interpreter) {
  return !interpreter->refused && !onstack_load_relaxed(&interpreter->ready);
}

static void interpreters_ask_all(onstack_interpreters *interpreters, onstack_slot *slot) {
  onstack_loader_count(&interpreters->loaded);
  interpreters->begins = false;
  for (uint32_t i = 0; i < slot->interpreter_count; i++)
    if (interpreters_is_missing(&slot->interpreters[i]))
      interpreters->begins |= !interpreters_ask(slot, &slot->interpreters[i]);
}

static bool interpreters_are_missing(const onstack_slot *slot) {
  for (uint32_t i = 0; i < slot->interpreter_count; i++)
    if (interpreters_is_missing(&slot->interpreters[i])) return true;
  return false;
}

int onstack_interpreters_open(onstack_interpreters *interpreters, onstack_slot *slot, uint32_t depth, bool resumed) {
  if (slot->interpreter_count == 0) return 0;
  if (!interpreters->frames) interpreters->frames = malloc(depth * sizeof(*interpreters->frames));
  if (!interpreters->frames) return -ENOMEM;
  interpreters->counters = (onstack_interleave_counters){0};
  interpreters->begins = resumed;
  if (!resumed) interpreters_ask_all(interpreters, slot);
  return 0;
}

void onstack_interpreters_look(onstack_interpreters *interpreters, onstack_slot *slot) {
  onstack_loader_counts loaded = {0, 0};
  if (!interpreters->frames || !interpreters_are_missing(slot)) return;
  const uint64_t now = onstack_monotonic_ns();
  if (now - interpreters->looked_ns < INTERPRETERS_PAUSE_NS) return;
  interpreters->looked_ns = now;
  if (interpreters->begins || !onstack_loader_count(&loaded) || !onstack_loader_same(&loaded, &interpreters->loaded))
    interpreters_ask_all(interpreters, slot);
}
