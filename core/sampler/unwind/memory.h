/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the stacks of a thread lie, as the kernel reported it, and the questions that a walk leaves for housekeeping. */
#ifndef ONSTACK_SAMPLER_UNWIND_MEMORY_H
#define ONSTACK_SAMPLER_UNWIND_MEMORY_H

#include "platform/defs.h"

#define ONSTACK_STACK_RANGES 3u

/* A readable mapping that stacks of the thread lie in. */
typedef struct onstack_stack_range {
  uint64_t low;
  uint64_t high;
} onstack_stack_range;

typedef struct onstack_stack_bounds {
  uint64_t requests[2]; /* stack addresses whose bounds no range has: housekeeping looks them up. 0: none */
  onstack_stack_range ranges[ONSTACK_STACK_RANGES];
  uint64_t thread_pointer;     /* noted with a request: libc puts it at the top of a thread's stack */
  onstack_stack_range unknown; /* no mapping was found for a request here: none is made again until housekeeping clears it */
} onstack_stack_bounds;

/* True if the last request near `address` found no mapping. Signal-safe. */
ONSTACK_INTERNAL bool onstack_stack_bounds_are_unknown(const onstack_stack_bounds *bounds, uint64_t address);

/* Asks housekeeping for the bounds of the mapping that holds `address`; true if this is a new request. Signal-safe. */
ONSTACK_INTERNAL bool onstack_stack_bounds_request(onstack_stack_bounds *bounds, uint64_t address);

/* Nothing is known and nothing is asked. Under the lock of the record that holds them. */
ONSTACK_INTERNAL void onstack_stack_bounds_clear(onstack_stack_bounds *bounds);

/* The calling thread's thread pointer (FS base, TPIDR_EL0); 0: not to be had. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_thread_pointer(void);

/*
 * The memory reader seam: how a walker reads words of the interrupted stack without ever faulting.
 *
 *   probe   a load, but only inside the mapping that the stack pointer of the walked stack lies in (bounds from the
 *           kernel, kept in the thread's record) and only on a page that was just probed, or that the signal's frame was
 *           just written to (walk.h); everything else by `copy`. Where that is refused, everything else is unreadable.
 *           Why a load is safe there: the thread whose stack it is stands still in our handler, so nobody unmaps its
 *           stack; a wild frame pointer that leads into another mapping, which another thread may unmap at any
 *           instant, is outside the bounds and never dereferenced. Bounds are asked for by stack pointers only, never
 *           by frame pointers, and housekeeping checks them again every second.
 *   copy    process_vm_readv on ourselves: the kernel copies, or says EFAULT. No race, about ten times the cost.
 *   none    refuses everything: walks end at the interrupted PC.
 *
 * Chosen at start by a self-test on a good page and on a PROT_NONE page (seccomp returns EPERM for both).
 */

struct onstack_memory;

typedef struct onstack_reader {
  const char *name;
  /* True if it reads `good` (a readable page, with another below it) and refuses `bad` (PROT_NONE, right above). Start only. */
  bool (*self_test)(const void *good, const void *bad);
  /* Reads two neighbouring words at an aligned, plausible address. Signal-safe. */
  bool (*read_pair)(struct onstack_memory *memory, uint64_t address, uint64_t words[2]);
} onstack_reader;

/* One walk's view of memory; lives on the signal stack. */
typedef struct onstack_memory {
  const onstack_reader *reader;
  onstack_stack_bounds *bounds; /* asked for those that are missing; NULL: nobody is */
  bool asked;                   /* bounds were asked for: wake housekeeping */
  bool elsewhere;               /* not the calling thread's stack: its thread pointer leads to another goroutine */
  bool copy_works;
  uint64_t low; /* the mapping of the stack that is being walked; low == high: not known */
  uint64_t high;
  uint64_t page_low; /* what has been proven readable by this walk; low == high: nothing */
  uint64_t page_high;
  uint64_t before[2]; /* the same before that, the latest first, as probe_pack packs them: calls across
                         languages go to other stacks and back, by way of a goroutine's g */
  onstack_stack_range ranges[ONSTACK_STACK_RANGES];
} onstack_memory;

ONSTACK_INTERNAL_DATA const onstack_reader onstack_reader_probe;
ONSTACK_INTERNAL_DATA const onstack_reader onstack_reader_copy;
ONSTACK_INTERNAL_DATA const onstack_reader onstack_reader_none;

/* The walk is on the stack of `sp` from here on: looks up its bounds, or asks for them. Signal-safe. */
ONSTACK_INTERNAL void onstack_memory_enter_stack(onstack_memory *memory, uint64_t sp);

/* The known bounds that an address lies in; NULL: none. Signal-safe. */
ONSTACK_INTERNAL const onstack_stack_range *onstack_memory_find_range(const onstack_memory *memory, uint64_t address);

/* Where the main thread's stack ends, but for the program's strings; 0: not known. Written at start. */
ONSTACK_INTERNAL_DATA uint64_t onstack_memory_main_end;

/* Where the calling thread's stack ends if it is one that libc or the kernel made, and holds `sp`; 0: it does not seem to.
   Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_memory_stack_end(uint64_t sp);

/* Two words by process_vm_readv. Signal-safe. */
ONSTACK_INTERNAL bool onstack_memory_copy_pair(uint64_t address, uint64_t words[2]);

/*
 * Copies ONSTACK_COPY_MANY words or fewer from scattered addresses by one process_vm_readv; a word may be at any address.
 * Returns how many were copied before the first that could not be read. Signal-safe.
 */
#define ONSTACK_COPY_MANY 12u
ONSTACK_INTERNAL uint32_t onstack_memory_copy_many(const uint64_t *addresses, uint32_t count, uint64_t *words);

/* Two words by the walk's reader, after the checks that every reader needs (plausible, 8-byte aligned). Signal-safe. */
ONSTACK_INTERNAL bool onstack_memory_read_pair(onstack_memory *memory, uint64_t address, uint64_t words[2]);

#endif
