/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a sample is made, whatever its source: a tick (entry_handler.c), or what is no signal at all, as an allocation in the
 * thread itself, or a wait that another thread has seen. A function for each of the three: they claim, copy and publish by the
 * same steps. onstack_traceback_walk makes no sample: it belongs to no session, and shares the walk alone (walk.h).
 *
 * Who calls has made sure that the slot stays the session's for so long: the handler of a tick by its thread record
 * (slot.h), any other source by onstack_source_enter.
 */
#ifndef ONSTACK_SAMPLER_SESSION_RECORD_H
#define ONSTACK_SAMPLER_SESSION_RECORD_H

#include "platform/calls.h"
#include "sampler/session/slot.h"

#include <ucontext.h>

/* What a source has seen. */
typedef struct onstack_event {
  onstack_thread *thread; /* the record of the thread whose stack it is; NULL: it has none, so no name, and no bounds */
  uint32_t tid;           /* of that thread */
  onstack_kind kind;
  uint64_t value;       /* in the kind's unit */
  uint32_t weight;      /* events that it stands for, at least 1 */
  uint8_t flags;        /* ONSTACK_SAMPLE_*, besides those of the record itself */
  const uint64_t *name; /* of a thread without a record: 16 bytes, NUL-padded; NULL: not known */
  const onstack_registers *registers;
  void *ucontext; /* of a signal; NULL: there is none */
  bool waited;    /* for a processor, where the slot says states */
} onstack_event;

/*
 * Claims a ring entry, walks, copies labels, publishes, and wakes the consumer where that is due. What cannot be taken is
 * counted in slot->lost. Events of the slot's own kind are counted in slot->counters.ticks before, by the source; those of
 * other kinds by the statistics (sampler/api/statistics.c). Signal-safe; on the thread whose stack it is, with every signal
 * blocked, so that nothing nests over a claimed entry. Returns the sample's position in the ring and 1; 0: there is no sample.
 */
ONSTACK_INTERNAL uint64_t onstack_record(onstack_slot *slot, const onstack_event *event);

/* A stack that was walked before. */
typedef struct onstack_walked_stack {
  const uint64_t *frames;
  const uint8_t *unwound_by; /* as in onstack_walk, with its marks */
  const char *labels;        /* "key\0value\0..." */
  uint32_t count, label_bytes;
  onstack_truncation truncation;
  uint32_t map_sequence;                  /* of the module map, before the walk (sampler/unwind/rules.h) */
  const onstack_interpreted *interpreted; /* NULL: no interpreter runs there */
  bool labels_cut;
  uint64_t time_ns; /* real time when it was there last; 0: now */
} onstack_walked_stack;

/* The same without a walk: of the event, `registers` and `ucontext` are not looked at. The stack is no deeper than the ring's
   entries, and has no more labels than they have room for. Ordinary threads, in a visit (onstack_source_enter). */
ONSTACK_INTERNAL void onstack_record_walked(onstack_slot *slot, const onstack_event *event,
                                            const onstack_walked_stack *stack);

/*
 * The same for `weight` ticks of the calling thread, which the signal of `context` has interrupted; `waited` as in an event.
 * The caller has checked the room on the signal stack.
 *
 * Apart from onstack_record, whose event would be 64 bytes in the handler's frame, below the walk: of the 1,024 that are
 * promised the unwinder `rules` leaves 24 (tests/core/test_stack_use.c). Here its parts stay in registers.
 */
ONSTACK_INTERNAL void onstack_record_tick(onstack_slot *slot, onstack_thread *thread, uint32_t tid, uint32_t weight,
                                          ucontext_t *context, bool waited);

/* From before a source's call of onstack_record in an ordinary thread until after it. */
typedef struct onstack_source_visit {
  onstack_slot *slot;
  uint32_t tid;  /* of the calling thread, which is inside of the slot's `visits` */
  uint64_t mask; /* its signal mask of before */
} onstack_source_visit;

/*
 * Blocks every signal and keeps the session from ending; false: it is over (or not the one that the generation names), and
 * nothing is left to do. For sources that are no signals.
 */
ONSTACK_INTERNAL bool onstack_source_enter(onstack_source_visit *visit, onstack_slot *slot, uint32_t generation);
ONSTACK_INTERNAL void onstack_source_leave(const onstack_source_visit *visit);

/*
 * Whether the stack that the handler runs on has so many bytes left. On an alternate stack the room is known: the kernel's
 * frame holds the stack's bounds. On a thread without one we run on the interrupted stack, whose end nobody tells us; the
 * kernel has just written its own frame of several KiB there. Signal-safe.
 */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_has_room(const ucontext_t *context,
                                                                                           uint32_t bytes) {
  const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  const uint64_t low = (uint64_t)(uintptr_t)context->uc_stack.ss_sp;
  const uint64_t size = context->uc_stack.ss_size;
  if (here - low >= size) return true; /* SS_DISABLE leaves size 0 */
  return here - low >= bytes;
}

#endif
