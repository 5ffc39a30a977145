/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The process that fuzz_walker.c walks in: a stack, native code with a rule table, native code without, Go code with its
 * tables and special functions, and a g and m. One at a time, in the globals that the walkers use.
 */
#ifndef ONSTACK_TESTS_FUZZ_WORLD_H
#define ONSTACK_TESTS_FUZZ_WORLD_H

#include "fuzz.h"

#include "sampler/unwind/memory.h"

/* Makes a world out of the input's next bytes, and the view of memory that a walk in it begins with. */
void world_make(fuzz_input *input, onstack_memory *memory);

/* The stack's words, out of all bytes that are left. */
void world_fill_stack(fuzz_input *input);

/* An address or number of any kind. */
uint64_t world_number(fuzz_input *input);

bool world_is_code(uint64_t address);

uint32_t world_reads(void); /* since the last forget */
void world_forget_reads(void);

void world_end(void);

#endif
