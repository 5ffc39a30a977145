/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/others.h"

#include "platform/atomics.h"
#include "platform/interpreted.h"
#include "platform/process_memory.h"

/* The kernel copies: the thread can go on, and end, at any instant. */
static uint32_t others_read(uint64_t address, void *to, uint32_t bytes) {
  return onstack_process_memory_read(address, to, bytes);
}

static uint32_t others_read_own(uint64_t address, uint64_t *word) { return others_read(address, word, sizeof(*word)); }

bool onstack_interpreted_copy_of(const onstack_interpreter *interpreters, uint32_t count, uint32_t tid, uint32_t capacity,
                                 uint64_t *hints, onstack_interpreted *out) {
  onstack_frame_place place = {{.read = others_read,
                                .read_own = others_read_own,
                                .scratch = out->frames + capacity,
                                .scratch_bytes = ONSTACK_FRAME_SCRATCH,
                                .tid = (int32_t)tid},
                               0};
  *out = (onstack_interpreted){.named = 1, .leaf = ONSTACK_INTERPRETED_LEAF_CALLED}; /* who is blocked switches no stacks */
  for (uint32_t i = 0; i < count && out->count == 0; i++) {
    const onstack_frame_provider *provider = interpreters[i].provider;
    if (!onstack_observe(&interpreters[i].ready) || !provider->copy_of) continue;
    const uint32_t result = provider->copy_of(provider->data, &place.memory, &hints[i], out->frames, capacity);
    const uint32_t frames = result & ~ONSTACK_INTERPRETED_CUT;
    out->count = (uint16_t)(frames < capacity ? frames : capacity);
    out->cut = (result & ONSTACK_INTERPRETED_CUT) != 0;
    out->interpreter = (uint8_t)i;
    onstack_interpreted_name_all(provider, out->frames, out->count);
  }
  return out->count > 0;
}
