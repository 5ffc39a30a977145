/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/walk.h"

#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/unwinder.h"

typedef struct call_site_batch {
  uint32_t count;
  uint32_t frames[ONSTACK_COPY_MANY];
  uint64_t words[ONSTACK_COPY_MANY]; /* addresses before the copy, code after it */
} call_site_batch;

/* The marked frames from `next` on, as many as one system call reads. Another sample may have proven some meanwhile. */
static ONSTACK_HANDLER uint32_t call_site_collect(call_site_batch *batch, const uint64_t *frames, uint8_t *unwound_by,
                                                  uint32_t count, uint32_t next, uint64_t seal) {
  batch->count = 0;
  for (; next < count && batch->count < ONSTACK_COPY_MANY; next++) {
    if (!(unwound_by[next - 1] & ONSTACK_BY_UNPROVEN)) continue;
    unwound_by[next - 1] &= (uint8_t)~ONSTACK_BY_UNPROVEN;
    uint64_t value = onstack_pc_recall(frames[next] - 1, seal);
    if (value && !(value & ONSTACK_PC_UNPROVEN)) continue;
    batch->frames[batch->count] = next;
    batch->words[batch->count++] = frames[next] - ONSTACK_CALL_BYTES;
  }
  return next;
}

static ONSTACK_HANDLER void call_site_note(uint64_t return_address, uint64_t seal) {
  uint64_t value = onstack_pc_recall(return_address - 1, seal);
  if (value) onstack_pc_remember(return_address - 1, value & ~(uint64_t)ONSTACK_PC_UNPROVEN, seal);
}

/* An interpreter's entry that calls return to, which nobody called from there. */
static ONSTACK_HANDLER_APART bool call_site_is_entry(uint64_t return_address) {
  uint64_t code;
  return onstack_memory_copy_many(&return_address, 1, &code) == 1 && onstack_return_entry_begins(code);
}

/* The frames before the first that is not code by today's map. */
static ONSTACK_HANDLER uint32_t call_sites_listed(const uint64_t *frames, uint8_t *unwound_by, uint32_t count) {
  onstack_code_range last = {0, 0};
  for (uint32_t next = 1; next < count; next++) {
    if (!(unwound_by[next - 1] & ONSTACK_BY_UNLISTED)) continue;
    if (!onstack_code_is_executable(frames[next] - 1, &last)) return next;
    unwound_by[next - 1] &= (uint8_t)~ONSTACK_BY_UNLISTED;
  }
  return count;
}

ONSTACK_HANDLER bool onstack_call_sites_end(const uint8_t *unwound_by, uint32_t believed) {
  for (uint32_t i = 0; i < believed; i++)
    if (unwound_by[i] != ONSTACK_BY_RULES) return false;
  return believed > 1;
}

ONSTACK_HANDLER uint32_t onstack_call_sites_check(const uint64_t *frames, uint8_t *unwound_by, uint32_t count) {
  /* Before the code is read: what is noted of code that another module replaces meanwhile belongs to an epoch that is
     over (sampler/modules/modules.c counts it up before anything is unmapped). */
  uint64_t seal = onstack_pc_seal(onstack_observe(&onstack_pc_epoch));
  call_site_batch batch;
  uint32_t next = 1;
  count = call_sites_listed(frames, unwound_by, count);
  while (next < count) {
    next = call_site_collect(&batch, frames, unwound_by, count, next, seal);
    for (uint32_t i = 0; i < batch.count;) {
      uint32_t got = onstack_memory_copy_many(batch.words + i, batch.count - i, batch.words + i);
      for (uint32_t end = i + got; i < end; i++) {
        const uint64_t address = frames[batch.frames[i]];
        if (!onstack_call_ends((const uint8_t *)&batch.words[i]) && !call_site_is_entry(address)) return batch.frames[i];
        call_site_note(address, seal);
      }
      i++; /* past the one that could not be read */
    }
  }
  return count;
}
