/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks that are kept to be walked later. While the rules of a large library are being derived, or the map is written, a
 * walk ends there (PENDING) though nothing is wrong with the stack. The sample keeps the registers and both ends of the
 * stack then, copied by the kernel; when the rules are there the consumer walks the copy
 * (sampler/drain/deliver.c). What lies between
 * the ends of a deep stack is most often one large frame, of which a walk reads nothing (rustc's: over 512 KiB).
 *
 * A slot has a pool of them, and so has a preloaded process that has no session yet (preload/first_ticks_store.c). A pool takes
 * memory only while it is used. While all of it is in use, samples stay cut. It is never shared with other processes, which may
 * be another user's.
 */
#ifndef ONSTACK_SAMPLER_RING_KEPT_H
#define ONSTACK_SAMPLER_RING_KEPT_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_KEPT_STACKS 128u
/* Bytes from the stack pointer up: frames of C++ hold vectors of 64 KiB (DuckDB). A stack that ends below costs what it has, if
   its end is known: sampler/unwind/memory.h. */
#define ONSTACK_KEPT_NATIVE 131072u
#define ONSTACK_KEPT_FIRST 65536u /* from where the thread's stack begins down */
#define ONSTACK_KEPT_GO 8192u     /* of the goroutine that waits for the native code, from its stack pointer up */

/* A piece of a stack, as it was. */
typedef struct onstack_kept_piece {
  uint64_t low, high;
} onstack_kept_piece;

typedef struct onstack_kept {
  uint32_t taken; /* 0 or 1: a handler takes it, who walks it gives it back */
  uint32_t reserved;
  onstack_registers registers;
  onstack_kept_piece native, first, go;
  uint64_t g, g_stack[2]; /* the goroutine, and its bounds; 0: none */
  uint8_t native_bytes[ONSTACK_KEPT_NATIVE] __attribute__((aligned(16)));
  uint8_t first_bytes[ONSTACK_KEPT_FIRST] __attribute__((aligned(16)));
  uint8_t go_bytes[ONSTACK_KEPT_GO] __attribute__((aligned(16)));
  uint64_t frames[ONSTACK_MAX_DEPTH]; /* of who walks it */
  uint8_t unwound_by[ONSTACK_MAX_DEPTH];
} onstack_kept;

_Static_assert(ONSTACK_KEPT_STACKS <= UINT8_MAX, "a ring entry names one by a byte");

/* Keeps the calling thread's stack at these registers. Returns its number in the pool, from 1 on; 0: the pool (which may be
   NULL) has none, or nothing could be copied. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_keep(onstack_kept *pool, const onstack_registers *registers);

/* Gives one back. Whoever has it; signal-safe. */
ONSTACK_INTERNAL void onstack_kept_release(onstack_kept *kept);

/* The words of a kept stack at an address of then; false: they were not kept. Signal-safe. */
ONSTACK_INTERNAL bool onstack_kept_read(const onstack_kept *kept, uint64_t address, uint64_t words[2]);

#endif
