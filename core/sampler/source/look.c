/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/look.h"

#include "platform/process_memory.h"
#include "sampler/modules/blocked.h"
#include "sampler/labels/labels.h"
#include "sampler/threads/timer.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/traceback_walk.h"
#include "sampler/unwind/walk.h"

/*
 * The kernel tells the address behind the system call's instruction, where the thread will go on. That address may belong to
 * another line, an inlined function or the next function, so the walk begins at the instruction itself.
 */
static uint64_t look_running_pc(const onstack_task_call *call) {
  return call->number == -1 ? call->pc : call->pc - ONSTACK_ARCH_SYSCALL_BYTES;
}

/* By the kernel's copy: another thread may unmap that stack at any instant. */
static void look_walk(const onstack_slot *slot, const onstack_task_call *call, onstack_look *look) {
  onstack_memory memory;
  const uint64_t pc = look_running_pc(call);
  onstack_registers registers = {.pc = pc, .sp = call->sp, .fp = ONSTACK_UNKNOWN_REGISTER, .lr = ONSTACK_UNKNOWN_REGISTER};
  onstack_walk_prepare(&memory, slot->reader, slot->copy_works, NULL);
  onstack_walk_forget_ranges(&memory);
  memory.elsewhere = true;
  const onstack_walk walk = {.registers = &registers,
                             .memory = &memory,
                             .frames = look->frames,
                             .capacity = slot->ring.depth,
                             .unwound_by = look->unwound_by};
  /* Before the walk reads any of it; odd: of the one before. */
  look->stack.map_sequence = onstack_seqlock_begin(&onstack_modules.lock) & ~1u;
  /* As a handler is inside while it reads a table: it is not unmapped meanwhile. */
  onstack_traceback_enter();
  if (slot->copy_works && slot->unwinder->needs_rules) onstack_blocked_registers(pc, call->sp, &registers);
  const onstack_walk_result result = onstack_walk_run(slot->unwinder, &walk);
  onstack_traceback_leave();
  look->stack.count = result.frame_count;
  look->stack.truncation = result.truncation;
}

/*
 * The application's, of the other thread. Only that thread changes its entry, and a set that it refers to is not freed: but
 * whether it still does is known after the look, so nothing is loaded before that, the kernel copies.
 */
static void look_copy_labels(const onstack_slot *slot, uint32_t tid, onstack_look *look) {
  _Alignas(onstack_labels) char room_for_set[sizeof(onstack_labels) + ONSTACK_MAX_LABEL_BYTES];
  const onstack_labels *set = (const onstack_labels *)(const void *)room_for_set;
  const onstack_label_entry *entry = onstack_label_entry_find(tid);
  uint32_t room = slot->label_bytes;
  for (uint32_t place = 0; entry && place < ONSTACK_COUNT_OF(entry->sets); place++) {
    const onstack_labels *from = onstack_observe(&entry->sets[place]);
    if (!from) continue;
    const size_t got = onstack_process_memory_copy((uint64_t)(uintptr_t)from, room_for_set, sizeof(room_for_set));
    if (got < sizeof(*set) || set->bytes > got - offsetof(onstack_labels, text)) {
      look->stack.labels_cut = true;
      continue;
    }
    const uint32_t result = onstack_label_set_copy(set, look->labels + look->stack.label_bytes, room);
    look->stack.label_bytes += result & ~ONSTACK_LABELS_CUT;
    look->stack.labels_cut |= (result & ONSTACK_LABELS_CUT) != 0;
    room -= result & ~ONSTACK_LABELS_CUT;
  }
}

onstack_look_status onstack_look_at(const onstack_slot *slot, uint32_t tid, uint64_t cpu_ns, uint64_t *hints,
                                    onstack_look *look) {
  onstack_task_call call;
  uint64_t after_ns;
  switch (onstack_task_blocked_in(tid, &call)) {
  case ONSTACK_TASK_RUNS:
    return ONSTACK_LOOK_RUNS;
  case ONSTACK_TASK_REFUSED:
    return ONSTACK_LOOK_REFUSED;
  case ONSTACK_TASK_GONE:
    return ONSTACK_LOOK_GONE;
  case ONSTACK_TASK_BLOCKED:
    break;
  }
  if (call.pc == 0) return ONSTACK_LOOK_GONE; /* it ends */
  look->stack = (onstack_walked_stack){.frames = look->frames, .unwound_by = look->unwound_by, .labels = look->labels};
  look_walk(slot, &call, look);
  onstack_interpreted *interpreted = (onstack_interpreted *)(void *)look->interpreted;
  if (onstack_interpreted_copy_of(slot->interpreters, slot->interpreter_count, tid, slot->ring.depth, hints, interpreted))
    look->stack.interpreted = interpreted;
  look->stack.label_bytes = look->wait_label_bytes = onstack_wait_labels(tid, &call, look->labels);
  if (slot->label_bytes > 0) look_copy_labels(slot, tid, look);
  if (!onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &after_ns)) return ONSTACK_LOOK_GONE;
  return after_ns == cpu_ns ? ONSTACK_LOOK_BLOCKED : ONSTACK_LOOK_MOVED;
}
