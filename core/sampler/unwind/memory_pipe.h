/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The pipes of reader `pipe` (memory_pipe_handler.c). Open only while a session runs on a system that refuses process_vm_readv;
 * elsewhere none is made.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_MEMORY_PIPE_H
#define ONSTACK_SAMPLER_UNWIND_MEMORY_PIPE_H

#include "platform/defs.h"

/* A word, not 0, that is 0 in each child until that is put in order: there the process id may be the parent's. It stays. */
ONSTACK_INTERNAL void onstack_memory_pipe_set_process_word(const uint32_t *word);

/* Makes the pipes that are not there. False: not one could be made. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_memory_pipe_open(void);

/* Closes them; one that a walk holds at this instant stays. Ordinary threads. */
ONSTACK_INTERNAL void onstack_memory_pipe_close(void);

/* In the child of a fork: gives the inherited pipes back, which the parent goes on using. */
ONSTACK_INTERNAL void onstack_memory_pipe_after_fork(void);

/* Two words through a pipe; false where none is open, too. Signal-safe. */
ONSTACK_INTERNAL bool onstack_memory_pipe_pair(uint64_t address, uint64_t words[2]);

#endif
