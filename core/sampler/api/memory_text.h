/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The account of the process's memory (onstack_session_memory_text), as the preload writes it. */
#ifndef ONSTACK_SAMPLER_API_MEMORY_TEXT_H
#define ONSTACK_SAMPLER_API_MEMORY_TEXT_H

#include "platform/defs.h"

#include "onstack/heap.h"
#include "onstack/onstack.h"

/*
 * `ask_malloc`: how much is in use and how much is free. mallinfo2 looks at each free block, 100 ns each (glibc 2.36), and
 * holds its arena's lock meanwhile: with two million free blocks in one arena the host's threads stood still for 230 ms.
 * It never returns where a thread has that lock and waits for us. Without its answer what only it knows is unexplained.
 * Errors: as onstack_session_memory_text.
 */
ONSTACK_INTERNAL int onstack_memory_text_write(onstack_session *session, const onstack_runtime_memory *runtime,
                                               bool ask_malloc, onstack_writer writer, void *data);

#endif
