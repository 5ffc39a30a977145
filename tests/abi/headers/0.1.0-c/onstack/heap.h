/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: calls for allocators, and an account of the process's memory.
 * onstack/onstack.h explains the terms, the contexts and the results; onstack_heap(3) has more.
 */
#ifndef ONSTACK_HEAP_H
#define ONSTACK_HEAP_H

#include "onstack/onstack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- calls for allocators ----------------------------------------------------------------------------------- */

/*
 * An allocator, an arena or a pool calls these functions for each block. While no session of ONSTACK_CLOCK_HEAP runs, a call
 * costs a load and a predicted branch. The library remembers only blocks that it samples.
 * Context of all three: any thread, and a signal handler in which the host allocates. They take no lock, allocate nothing and
 *   keep errno. A sample needs 8 KiB of stack.
 */

/* Reports a new block. Call it from the function whose caller receives the block. Ignores NULL. */
ONSTACK_API void onstack_heap_allocated(const void *address, size_t size);

/* Reports the end of a block, before the allocator can give its address out again. Accepts any address, also NULL. */
ONSTACK_API void onstack_heap_freed(const void *address);

/*
 * Reports a new size, and perhaps a new address, of a block: a free and an allocation. If another thread may receive the
 * address `from` before this call, call onstack_heap_freed before the move and onstack_heap_allocated after it instead.
 */
ONSTACK_API void onstack_heap_moved(const void *from, const void *to, size_t size);

/* ---- the process's memory ----------------------------------------------------------------------------------- */

/* A language runtime's account of its own memory, in bytes that are in memory. */
typedef struct onstack_runtime_memory {
  uint32_t size;     /* sizeof(onstack_runtime_memory) */
  uint32_t reserved; /* 0 */
  const char *name;  /* the name in the lines: "Go" */
  uint64_t address;  /* an object's address; the anonymous memory around it is the runtime's heap. 0: unknown */
  uint64_t in_use;   /* objects. Go: runtime.MemStats.HeapAlloc */
  uint64_t stacks;   /* stacks. Go: StackInuse */
  uint64_t other;    /* the runtime's own data. Go: MSpanSys + MCacheSys + BuckHashSys + GCSys + OtherSys */
  uint64_t idle;     /* memory for later objects. Go: HeapInuse - HeapAlloc + HeapIdle - HeapReleased */
} onstack_runtime_memory;

/*
 * Writes an account of the process's memory as lines for the comments of a heap profile. The first line has the resident size,
 * and the others add up to it. `session` is a heap session, or NULL. `runtime` may be NULL. onstack_heap(3) shows the lines and
 * says which allocators the library asks for their free memory.
 * Context: any thread. It takes milliseconds for each GiB.
 * Errors: OPTIONS, OUTPUT, -errno if /proc/self/smaps cannot be read.
 */
ONSTACK_API int onstack_session_memory_text(onstack_session *session, const onstack_runtime_memory *runtime,
                                            onstack_writer writer, void *data);

/* ---- experimental: sampling inside the allocator ------------------------------------------------------------ */

/*
 * For allocators that decide themselves which blocks to report.
 *
 * Allocation: `number` is 0 while no heap session runs, else the session's number. If a thread sees another number than before,
 * it calls onstack_heap_distance and counts that many bytes down; an empty block counts as one byte. It calls onstack_heap_take
 * with the block that reaches zero and then calls onstack_heap_distance again.
 *
 * Free: while a session runs, call onstack_heap_freed for a block at address a if marks[(a >> 6 ^ a >> 12) & mask] is not 0.
 * Load `mask` before `marks`, with acquire order.
 */
typedef struct onstack_heap_state {
  uint32_t number;      /* 0, or the heap session's number */
  uint32_t mask;        /* the number of marks - 1 */
  const uint8_t *marks; /* NULL before the first heap session; then mapped for the life of the process */
} onstack_heap_state;

/* Returns the state, which is valid for the life of the process. Context: signal-safe. */
ONSTACK_API const onstack_heap_state *onstack_heap_state_get(void);
/* Draws the number of bytes until the next sample. Context: signal-safe. */
ONSTACK_API uint64_t onstack_heap_distance(void);
/* Samples a block. Context: as onstack_heap_allocated. */
ONSTACK_API void onstack_heap_take(const void *address, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_HEAP_H */
