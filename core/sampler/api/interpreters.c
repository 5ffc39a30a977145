/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/session.h"

#include "platform/process.h"
#include "platform/calls.h"
#include "platform/interpreted.h"
#include "profile/report.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Between two looks for an interpreter that was loaded, has begun or has ended. */
#define INTERPRETERS_PAUSE_NS 20000000u

static pthread_mutex_t interpreters_lock = PTHREAD_MUTEX_INITIALIZER; /* one asks at a time */

static void interpreters_after_fork(void) {
  interpreters_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  onstack_interpreted_after_fork();
}

void onstack_interpreters_prepare(void) {
  onstack_publish(&onstack_profile_interpreted, &onstack_interpreted_describe);
  onstack_fork_set_interpreters(interpreters_after_fork);
}

static int interpreters_find(const onstack_frame_provider *provider, onstack_symbols_memory *symbols,
                             onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  pthread_mutex_lock(&interpreters_lock);
  const int found = onstack_provider_prepare(provider, symbols, loops);
  pthread_mutex_unlock(&interpreters_lock);
  return found;
}

bool onstack_interpreters_are_there(void) {
  onstack_interpreter_list list;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
  onstack_providers_list(&list);
  for (uint32_t i = 0; i < list.count; i++) {
    onstack_symbols_memory symbols = {0};
    if (interpreters_find(list.providers[i], &symbols, loops) != 0) return true;
  }
  return false;
}

/* With what its compiler has made, if that is jumped to from the loop, and the loop's frame is known. */
static uint32_t interpreters_add_jumped(onstack_loop_code loops[ONSTACK_LOOP_CODES], uint32_t count) {
  onstack_jumped_code *jumped = &onstack_code_jumped;
  uint64_t frame_size;
  if (!onstack_loop_frame(loops[0].low, &frame_size)) return count;
  onstack_store_relaxed(&jumped->frame_size, frame_size);
  onstack_publish(&jumped->from, loops[0].low + (loops[0].high - loops[0].low) / 2);
  const uint64_t bytes = onstack_observe(&jumped->bytes), low = onstack_load_relaxed(&jumped->low);
  if (bytes != 0 && count < ONSTACK_LOOP_CODES) loops[count++] = (onstack_loop_code){low, low + bytes};
  return count;
}

/* The compiler has begun since the loops were looked at. */
static bool interpreters_have_grown(const onstack_interpreter *interpreter) {
  const onstack_jumped_code *jumped = &onstack_code_jumped;
  if (!interpreter->jumps || interpreter->loop_count == ONSTACK_LOOP_CODES) return false;
  if (onstack_observe(&jumped->from) == 0 || onstack_observe(&jumped->bytes) == 0) return false;
  const uint64_t low = onstack_load_relaxed(&jumped->low);
  for (uint32_t i = interpreter->own_count; i < interpreter->loop_count; i++)
    if (onstack_load_relaxed(&interpreter->loops[i].low) == low) return false;
  return true;
}

/* A handler may be reading the loops: another life of a library that is ready. */
static void interpreters_set_loops(onstack_interpreter *interpreter, onstack_loop_code loops[ONSTACK_LOOP_CODES],
                                   uint32_t count) {
  const onstack_loop_code *known = interpreter->loops;
  if (known[0].low == loops[0].low && known[0].high == loops[0].high && interpreter->own_count >= count) {
    count = interpreter->own_count; /* the search for the parts that lie apart takes milliseconds */
    memcpy(loops, known, count * sizeof(*loops));
  } else {
    count = onstack_loop_cold(loops, count);
  }
  interpreter->own_count = count;
  if (interpreter->jumps) count = interpreters_add_jumped(loops, count);
  for (uint32_t i = 0; i < count; i++) {
    onstack_store_relaxed(&interpreter->loops[i].low, loops[i].low);
    onstack_store_relaxed(&interpreter->loops[i].high, loops[i].high);
  }
  onstack_store_relaxed(&interpreter->loop_count, count);
}

/* False: it is to be asked again soon. */
static bool interpreters_ask(onstack_slot *slot, onstack_interpreter *interpreter) {
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
  const int found = interpreters_find(interpreter->provider, &interpreter->symbols, loops);
  const int pieces = found < 0 ? 0 : found & ~ONSTACK_LOOP_JUMPS;
  interpreter->refused = (found < 0 && found != -EAGAIN) || pieces > ONSTACK_LOOP_CODES;
  if (pieces == 0 || interpreter->refused) {
    onstack_publish(&interpreter->ready, 0u);
    return found != -EAGAIN;
  }
  interpreter->jumps = found & ONSTACK_LOOP_JUMPS;
  interpreters_set_loops(interpreter, loops, (uint32_t)pieces);
  onstack_ring_make_room(&slot->ring, ONSTACK_INTERPRETED_BYTES(slot->ring.depth)); /* not before: entries are large by it */
  onstack_publish(&interpreter->ready, 1u); /* pairs with the observe in sampler/interpreter/interpreter_handler.c */
  return true;
}

/* `all`: objects have come or gone, which may be an interpreter's. */
static bool interpreters_is_due(const onstack_interpreter *interpreter, bool all) {
  if (interpreter->refused) return false;
  return all || !onstack_load_relaxed(&interpreter->ready) || interpreters_have_grown(interpreter) ||
         !onstack_provider_is_alive(interpreter->provider);
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
