/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: stacks without a session, and labels of goroutines, for language runtimes.
 * Experimental: these functions may change with any minor version. Their symbols have the version ONSTACK_EXPERIMENTAL.
 * onstack/onstack.h explains the terms, the contexts and the results; onstack_traceback(3) has more.
 */
#ifndef ONSTACK_TRACEBACK_H
#define ONSTACK_TRACEBACK_H

#include "onstack/onstack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- native stacks ------------------------------------------------------------------------------------------ */

/*
 * These functions serve a runtime that prints its own stacks, as Go does with runtime.SetCgoTraceback. Except for
 * onstack_traceback_prepare they take no lock, allocate nothing and do not ask the loader, and need 1.5 KiB of stack.
 */

/*
 * Reads the unwind tables and symbols of all loaded files. Walks return nothing before the first call has returned. Call it
 * again if onstack_traceback_is_stale returns 1. It takes 10 ms for each MiB of .eh_frame the first time, and keeps 20 bytes
 * for each function.
 * Context: any thread. If two threads call it, the second returns 0 at once.
 * Errors: CONTEXT, -ENOMEM, -errno (no /proc).
 */
ONSTACK_API int onstack_traceback_prepare(void);

/* Returns 1 if a walk has reached code that was loaded after the last preparation. Context: signal-safe. */
ONSTACK_API int onstack_traceback_is_stale(void);

/* Copies the registers from a signal handler's third argument (ucontext_t *). Context: signal-safe. */
ONSTACK_API void onstack_traceback_interrupted(const void *ucontext, onstack_registers *out);

/*
 * Copies the registers of the caller, or of the frame `skip` frames above the caller. The frame must still exist when they are
 * used.
 * Context: signal-safe.
 * Errors: UNSUPPORTED if a frame on the way has no simple unwind rule.
 */
ONSTACK_API int onstack_traceback_caller(uint32_t skip, onstack_registers *out);

/*
 * Walks native frames, innermost first, to the root or to the first Go function, which is left out. The addresses lie inside
 * the calls' instructions: subtract nothing.
 * Context: signal-safe; on the thread that owns the stack, or while that thread does not leave the frame.
 * Returns: the number of addresses, at most 64.
 */
ONSTACK_API uint32_t onstack_traceback_walk(const onstack_registers *from, uint64_t *frames, uint32_t capacity);

/*
 * Finds the function that contains an address of a walk, and its entry point.
 * Context: signal-safe.
 * Ownership: the system name is valid for the life of the process.
 * Returns: NULL if no symbol covers the address or its file was loaded after the last preparation.
 */
ONSTACK_API const char *onstack_traceback_symbol(uint64_t address, uint64_t *entry);

/* ---- labels of goroutines ----------------------------------------------------------------------------------- */

/*
 * For onstack's Go package. Go does not promise where a goroutine keeps its labels (pprof.Do). The package sets labels on a
 * goroutine that is locked to its thread, finds the word that holds them, reads them back, and then turns their use on.
 * `text` is a code address of the Go runtime.
 * Context of all three: a thread of Go, called from the goroutine in question. Errors: UNSUPPORTED.
 */

/* Returns the offset of the only word in the calling goroutine's g that equals `labels`. */
ONSTACK_API int onstack_go_labels_find(uint64_t text, uint64_t labels);

/* Copies the calling goroutine's labels in the form that samples have. Returns the bytes written. */
ONSTACK_API int onstack_go_labels_read(uint64_t text, uint32_t offset, char *out, uint32_t bytes);

/* Turns labels on for this runtime, or off if the offset is 0. */
ONSTACK_API int onstack_go_labels_use(uint64_t text, uint32_t offset);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_TRACEBACK_H */
