/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "session/heap_ends.h"

#include "allocator/live.h"
#include "base/exceptions.h"
#include "base/sys.h"

static int heap_end_tell(onstack_session *session, uint32_t place, onstack_sink sink, void *data) {
  ONSTACK_STOP_EXCEPTIONS;
  static const uint64_t no_frames[1];
  const onstack_slot *slot = session->slot;
  const onstack_live_note *note = &onstack_live.notes[place];
  const onstack_sample sample = {.size = sizeof(sample),
                                 .kind = ONSTACK_KIND_ALLOCATION,
                                 .time_ns = onstack_monotonic_ns(),
                                 .value = note->bytes,
                                 .period = slot->periods[ONSTACK_KIND_ALLOCATION],
                                 .unit = ONSTACK_UNIT_BYTES,
                                 .weight = note->objects,
                                 .tid = note->tid,
                                 .thread_name = "",
                                 .frames = no_frames,
                                 .flags = ONSTACK_SAMPLE_FREED,
                                 .object = onstack_load_relaxed(&slot->object_base) + note->position + 1};
  return sink(data, &sample);
}

bool onstack_heap_ends_deliver(onstack_session *session, onstack_sink sink, void *data) {
  onstack_slot *slot = session->slot;
  const uint32_t generation = onstack_load_relaxed(&slot->generation);
  const uint64_t freed = onstack_load_relaxed(&onstack_live.freed);
  const uint64_t delivered = onstack_load_relaxed(&slot->ring.head);
  if (freed == session->freed_told) return true;
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  for (uint32_t place = 0; (place = onstack_live_next_freed(place, delivered)) != ONSTACK_LIVE_NONE; place++) {
    const int result = sink ? heap_end_tell(session, place, sink, data) : 0;
    if (onstack_load_relaxed(&slot->generation) != generation) return false;
    if (result != 0) onstack_add_relaxed(&session->delivered[ONSTACK_KIND_ALLOCATION].refused, (uint64_t)1);
    onstack_live_release(place);
    session->freed_told++;
  }
  onstack_store_relaxed(&slot->sink_tid, 0);
  return true;
}
