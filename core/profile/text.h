/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text that is not a profile's: dumps, and the account of the process's memory. */
#ifndef ONSTACK_PROFILE_TEXT_H
#define ONSTACK_PROFILE_TEXT_H

#include "platform/defs.h"
#include "profile/store/output.h"

#include "onstack/profile.h"
#include "onstack/heap.h"

/* A dump: threads with the same stack stand together, above it; the group of the lowest thread id comes first. */

/* A line that no reader takes for two, whatever the thread calls itself. */
ONSTACK_INTERNAL void onstack_threads_text_thread(onstack_profile_output *output, int32_t tid, const char *name);

/* The profile's samples of ONSTACK_KIND_DUMP. Errors: OPTIONS, -ENOMEM, the symbolizer's; the output's. */
ONSTACK_INTERNAL int onstack_threads_text(onstack_profile *profile, const onstack_write_options *options,
                                          onstack_profile_output *output);

/*
 * The lines of onstack_session_memory_text (the public header), of which `sampled` bytes are in use by a heap session.
 * `ask_malloc`: how much is in use and how much is free. mallinfo2 looks at each free block, 100 ns each (glibc 2.36), and
 * holds its arena's lock meanwhile: with two million free blocks in one arena the host's threads stood still for 230 ms.
 * It never returns where a thread has that lock and waits for us. Without its answer what only it knows is unexplained.
 * Context: any thread, with cancellation disabled. Errors: as onstack_session_memory_text.
 */
ONSTACK_INTERNAL int onstack_memory_text(uint64_t sampled, const onstack_runtime_memory *runtime, bool ask_malloc,
                                         onstack_writer writer, void *data);

#endif
