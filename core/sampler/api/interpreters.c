/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/interpreters.h"

#include "platform/process.h"
#include "platform/calls.h"
#include "platform/interpreted.h"
#include "sampler/api/fork.h"
#include "sampler/interpreter/php.h"
#include "sampler/interpreter/python.h"
#include "sampler/api/options.h"
#include "sampler/interpreter/known.h"
#include "profile/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Between two looks for an interpreter that was loaded, has begun or has ended. */
#define INTERPRETERS_PAUSE_NS 20000000u

static const onstack_frame_provider interpreters_python = {.size = sizeof(onstack_frame_provider),
                                                           .stack_bytes = 512, /* gcc -fstack-usage: 400 */
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

static pthread_mutex_t interpreters_lock = PTHREAD_MUTEX_INITIALIZER; /* one asks at a time */

static void interpreters_after_fork(void) {
  interpreters_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
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
  pthread_mutex_lock(&interpreters_lock);
  const int found = provider->prepare(provider->data, loops);
  pthread_mutex_unlock(&interpreters_lock);
  interpreter->refused = (found < 0 && found != -EAGAIN) || found > ONSTACK_LOOP_CODES;
  if (found <= 0 || interpreter->refused) {
    onstack_publish(&interpreter->ready, 0u);
    return found != -EAGAIN;
  }
  for (int i = 0; i < found; i++) { /* a handler may be reading them: another life of a library that is ready */
    onstack_store_relaxed(&interpreter->loops[i].low, loops[i].low);
    onstack_store_relaxed(&interpreter->loops[i].high, loops[i].high);
  }
  onstack_store_relaxed(&interpreter->loop_count, (uint32_t)found);
  interpreter->lives = provider == &interpreters_python ? onstack_python_lives
                       : provider == &interpreters_php  ? onstack_php_lives
                                                        : NULL;
  interpreter->tells = provider == &interpreters_python ? onstack_python_is_innermost : NULL;
  onstack_ring_make_room(&slot->ring, ONSTACK_INTERPRETED_BYTES(slot->ring.depth)); /* not before: entries are large by it */
  onstack_publish(&interpreter->ready, 1u); /* pairs with the observe in sampler/interpreter/interpreter_handler.c */
  return true;
}

/* `all`: objects have come or gone, which may be an interpreter's. */
static bool interpreters_is_due(const onstack_interpreter *interpreter, bool all) {
  if (interpreter->refused) return false;
  return all || !onstack_load_relaxed(&interpreter->ready) ||
         (interpreter->lives && !interpreter->lives(interpreter->loops, interpreter->loop_count));
}

static void interpreters_ask_due(onstack_interpreters *interpreters, onstack_slot *slot, bool all) {
  bool begins = false;
  for (uint32_t i = 0; i < slot->interpreter_count; i++)
    if (interpreters_is_due(&slot->interpreters[i], all)) begins |= !interpreters_ask(slot, &slot->interpreters[i]);
  interpreters->begins = begins;
}

static bool interpreters_have_ended(const onstack_slot *slot) {
  for (uint32_t i = 0; i < slot->interpreter_count; i++)
    if (onstack_load_relaxed(&slot->interpreters[i].ready) && interpreters_is_due(&slot->interpreters[i], false))
      return true;
  return false;
}

int onstack_interpreters_open(onstack_interpreters *interpreters, onstack_slot *slot, uint32_t depth, bool resumed) {
  if (slot->interpreter_count == 0) return 0;
  if (!interpreters->frames) interpreters->frames = malloc(depth * sizeof(*interpreters->frames));
  if (!interpreters->frames) return -ENOMEM;
  interpreters->counters = (onstack_interleave_counters){0};
  interpreters->begins = resumed;
  if (resumed) return 0;
  onstack_loader_count(&interpreters->loaded);
  interpreters_ask_due(interpreters, slot, true);
  return 0;
}

void onstack_interpreters_look(onstack_interpreters *interpreters, onstack_slot *slot) {
  onstack_loader_counts loaded = {0, 0};
  if (!interpreters->frames) return;
  const uint64_t now = onstack_monotonic_ns();
  if (now - interpreters->looked_ns < INTERPRETERS_PAUSE_NS) return;
  interpreters->looked_ns = now;
  const bool told = onstack_loader_count(&loaded), changed = told && !onstack_loader_same(&loaded, &interpreters->loaded);
  if (told) interpreters->loaded = loaded;
  if (!told || changed || interpreters->begins || interpreters_have_ended(slot))
    interpreters_ask_due(interpreters, slot, changed);
}

bool onstack_interpreters_are_met(const onstack_interpreters *interpreters, const onstack_slot *slot) {
  for (uint32_t i = 0; i < slot->interpreter_count; i++)
    if (onstack_load_relaxed(&slot->interpreters[i].ready)) return true;
  return interpreters->begins;
}
