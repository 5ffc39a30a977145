/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/interpreter.h"

#include "platform/atomics.h"
#include "platform/calls.h"
#include "platform/interpreted.h"

bool onstack_interpreted_copy_of(const onstack_interpreter *interpreters, uint32_t count, uint32_t tid, uint32_t capacity,
                                 uint64_t *hints, onstack_interpreted *out) {
  uint64_t place = 0;
  const onstack_frame_memory memory = {.read = onstack_copied_read,
                                       .read_own = onstack_copied_read_word,
                                       .scratch = out->frames + capacity,
                                       .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                       .tid = (int32_t)tid,
                                       .place = &place};
  *out = (onstack_interpreted){.named = 1, .leaf = ONSTACK_INTERPRETED_LEAF_CALLED}; /* who is blocked switches no stacks */
  for (uint32_t i = 0; i < count && out->count == 0; i++) {
    const onstack_frame_provider *provider = interpreters[i].provider;
    if (!onstack_observe(&interpreters[i].ready) || !provider->copy_of) continue;
    const uint32_t result = provider->copy_of(provider->data, &memory, &hints[i], out->frames, capacity);
    const uint32_t frames = result & ~ONSTACK_INTERPRETED_CUT;
    out->count = (uint16_t)(frames < capacity ? frames : capacity);
    out->cut = (result & ONSTACK_INTERPRETED_CUT) != 0;
    out->interpreter = (uint8_t)i;
    onstack_interpreted_name_all(provider, out->frames, out->count);
  }
  return out->count > 0;
}

/* There may be more calls than native frames. */
static bool interleave_is_open(const onstack_walked *stack) {
  return stack->truncation != ONSTACK_TRUNCATED_NOT || stack->apart;
}

static uint32_t interleave_count_loops(const onstack_interpreter *interpreter, const onstack_walked *stack) {
  uint32_t loops = 0;
  for (uint32_t i = 0; i < stack->count; i++) loops += onstack_interpreter_is_loop(interpreter, stack->frames, i);
  return loops;
}

/* Calls of the loop by the language's frames; the last one may have no end. */
static uint32_t interleave_count_calls(const onstack_interpreted *interpreted) {
  uint32_t calls = 0;
  bool ended = true;
  for (uint32_t i = 0; i < interpreted->count; i++) {
    ended = (interpreted->frames[i].flags & ONSTACK_INTERPRETED_ENTRY) != 0;
    calls += ended;
  }
  return calls + !ended;
}

/* Behind the innermost call's frames. */
static uint32_t interleave_next_call(const onstack_interpreted *interpreted) {
  uint32_t next = 0;
  while (next < interpreted->count && !(interpreted->frames[next].flags & ONSTACK_INTERPRETED_ENTRY)) next++;
  return next < interpreted->count ? next + 1 : next;
}

static bool interleave_is_innermost(const onstack_interpreter *interpreter) {
  ONSTACK_STOP_EXCEPTIONS;
  const onstack_frame_provider *provider = interpreter->provider;
  return provider->is_innermost(provider->data, &onstack_copied_memory) != 0;
}

/* The same for an interpreter that tells where its calls are. */
static bool interleave_fits_place(const onstack_interpreter *interpreter, const onstack_interpreted *interpreted,
                                  uint32_t loops, uint32_t calls, bool leaf, bool open, uint32_t *first) {
  if (interpreted->leaf == ONSTACK_INTERPRETED_LEAF_GONE) return false;
  if (loops == calls && !open) return true;
  const bool unknown = interpreted->leaf == ONSTACK_INTERPRETED_LEAF_UNKNOWN;
  const bool believed = unknown && !onstack_load_relaxed(&onstack_interpreted_switches);
  /* Frames that were cut are the innermost call's, and those of others have none. */
  const bool cut = believed && interpreted->cut && loops > calls && interleave_is_innermost(interpreter);
  if (leaf && unknown) return cut || (believed && open && loops <= calls);
  *first = leaf && interpreted->leaf == ONSTACK_INTERPRETED_LEAF_IS_NOT;
  loops -= *first;
  return cut || loops == calls || (open && loops > 0 && loops < calls) ||
         (loops > calls && (leaf || interpreted->leaf == ONSTACK_INTERPRETED_LEAF_CALLED) &&
          interleave_is_innermost(interpreter));
}

/* Behind the innermost native frame of the loop. */
static uint32_t interleave_behind_innermost(const onstack_interpreter *interpreter, const onstack_walked *stack) {
  uint32_t i = 0;
  while (i < stack->count && !onstack_interpreter_is_loop(interpreter, stack->frames, i)) i++;
  return i + 1;
}

/* The innermost frame is a function in native code, as PHP's usort: no loop runs it, so one that is farther in has left its
   frames. Elsewhere a destructor may run in between. */
static bool interleave_is_left(const onstack_interpreted *interpreted) {
  return interpreted->count > 0 && interpreted->frames[0].flags & ONSTACK_INTERPRETED_OF_NATIVE;
}

/*
 * *first: from which native frame on loops run frames of the language: behind the innermost one where that has not begun with
 * its own, or has left them already. *next: the first frame of the language that a loop runs; those
 * before it are of a call whose loop has not begun, or has ended (PHP's zend_call_function enters a frame before). False: they
 * do not fit.
 */
static bool interleave_fits(const onstack_interpreter *interpreter, const onstack_interpreted *interpreted,
                            const onstack_walked *stack, uint32_t *first, uint32_t *next) {
  const uint32_t calls = interleave_count_calls(interpreted);
  uint32_t loops = interleave_count_loops(interpreter, stack);
  const bool leaf = stack->count > 0 && onstack_interpreter_is_loop(interpreter, stack->frames, 0);
  const bool open = interleave_is_open(stack);
  *first = *next = 0;
  if (interpreter->provider->is_innermost)
    return loops > 0 && interleave_fits_place(interpreter, interpreted, loops, calls, leaf, open, first);
  /* cut: it is an outer loop that has none */
  if (!interpreted->cut && loops == calls + 1 && (leaf || interleave_is_left(interpreted))) {
    *first = interleave_behind_innermost(interpreter, stack);
    loops--;
  }
  *next = !open && !leaf && calls == loops + 1 ? interleave_next_call(interpreted) : 0;
  if (loops == 0) return false;
  if (*next > 0) return true;
  return loops == calls || (open && loops < calls) || (interpreted->cut && loops > calls);
}

typedef struct interleave_output {
  uint64_t *frames;
  uint32_t count, capacity;
  bool full, unnamed;
} interleave_output;

static void interleave_put(interleave_output *output, uint64_t address) {
  output->full = output->count == output->capacity;
  if (!output->full) output->frames[output->count++] = address;
}

/* The frames of one call of the loop, which begins with `next`; returns where the next one begins. */
static uint32_t interleave_put_call(const onstack_interpreted *interpreted, uint32_t next, uint64_t native,
                                    interleave_output *output) {
  bool ended = false;
  while (next < interpreted->count && !ended && !output->full) {
    const onstack_interpreted_frame *frame = &interpreted->frames[next++];
    ended = (frame->flags & ONSTACK_INTERPRETED_ENTRY) != 0;
    if (frame->flags & ONSTACK_INTERPRETED_EMPTY) {
      interleave_put(output, native);
      continue;
    }
    output->unnamed |= onstack_interpreted_is_unnamed(frame->function);
    interleave_put(output, frame->function);
  }
  return next;
}

void onstack_interleave(const onstack_interpreter *interpreter, onstack_interpreted *interpreted, onstack_walked *stack,
                        uint64_t *frames, uint32_t capacity, onstack_interleave_counters *counters) {
  interleave_output output = {.frames = frames, .capacity = capacity};
  uint32_t first, next;
  /* Another thread of the process, or one that has called native code alone. */
  const bool runs = interleave_count_loops(interpreter, stack) > 0;
  if (!runs && (interpreted->refused || !interleave_is_open(stack))) return;
  if (!interpreted->named) onstack_interpreted_name_all(interpreter->provider, interpreted->frames, interpreted->count);
  if (interpreted->refused || !interleave_fits(interpreter, interpreted, stack, &first, &next)) {
    onstack_add_relaxed(&counters->unmatched, (uint64_t)1);
    return;
  }
  for (uint32_t i = 0; i < stack->count && !output.full; i++) {
    if (i < first || next == interpreted->count || !onstack_interpreter_is_loop(interpreter, stack->frames, i))
      interleave_put(&output, stack->frames[i]);
    else
      next = interleave_put_call(interpreted, next, stack->frames[i], &output);
  }
  stack->frames = frames;
  stack->count = output.count;
  if (output.full) stack->truncation = ONSTACK_TRUNCATED_DEPTH;
  onstack_add_relaxed(&counters->interpreted, (uint64_t)1);
  if (interpreted->cut || output.full) onstack_add_relaxed(&counters->cut, (uint64_t)1);
  if (output.unnamed) onstack_add_relaxed(&counters->unnamed, (uint64_t)1);
}
