/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether a chain of frame pointers is whole where it ends. Zero marks the outermost frame, but code without frame pointers
 * keeps anything in the register, zero too, and leaves it zero from the beginning of a thread on. So the chain is whole only
 * if its last frame is known to begin stacks:
 *
 *   the entries of the program and of its loader
 *   musl's code that calls main, if it is a library: on the first words of the main thread's stack
 *   libc's code that calls the function of a thread: it called that of a thread of ours, too
 *   Go's functions at which a stack begins (sampler/unwind/code_map.h)
 */
#ifndef ONSTACK_SAMPLER_UNWIND_CHAIN_END_H
#define ONSTACK_SAMPLER_UNWIND_CHAIN_END_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* Written by ordinary threads, with the same numbers each time; 0: not known. */
typedef struct onstack_chain_roots {
  uint64_t entry;         /* of the program */
  uint64_t loader_entry;  /* of its loader, where the kernel starts the main thread */
  uint64_t main_sp;       /* the stack pointer there */
  uint64_t thread_begins; /* the return address of a thread's function */
  uint32_t has_libc;      /* libc is a library */
} onstack_chain_roots;

ONSTACK_INTERNAL_DATA onstack_chain_roots onstack_chain_roots_known;

/* Whether a stack begins in the frame that holds `address` (inside the call), whose callee's CFA is `sp`. Signal-safe. */
ONSTACK_INTERNAL bool onstack_chain_begins(uint64_t address, uint64_t sp);

/* Why a chain that ends in this frame is not whole, or ONSTACK_TRUNCATED_NOT. Signal-safe. */
ONSTACK_INTERNAL onstack_truncation onstack_chain_end(uint64_t address, uint64_t sp);

/* The function of a thread of ours says where it returns to. */
#define ONSTACK_CHAIN_THREAD_BEGINS()                                                                                       \
  onstack_chain_note_thread((uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))
ONSTACK_INTERNAL void onstack_chain_note_thread(uint64_t return_address);

#endif
