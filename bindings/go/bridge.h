/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Go cannot say by itself: C callbacks that carry a handle of Go, and a write in one call. The handle is a number
 * (runtime/cgo.Handle), never a pointer into Go's memory.
 */
#ifndef ONSTACKGO_BRIDGE_H
#define ONSTACKGO_BRIDGE_H

#include "onstack_names.h"

#include "onstack.h"

/* The forms of onstackgo_write. */
#define ONSTACKGO_PPROF 0
#define ONSTACKGO_FOLDED 1

/* Options for a session without threads whose samples go to `profile`. */
int onstackgo_options(onstack_options *options, onstack_profile *profile);

/*
 * Writes the profile; the bytes and the questions for names go to the exported Go functions with `handle`.
 * Errors: those of onstack_profile_write_pprof.
 */
int onstackgo_write(onstack_profile *profile, int form, int64_t start_time_unix_ns, int64_t duration_ns, uintptr_t handle);

/* Calls onstackgoModule with `handle` for each module that samples of the session were in. */
int onstackgo_modules(onstack_session *session, uintptr_t handle);

/* onstack_symbol_add for strings that live during the call; start_line and line 0: unknown. */
int onstackgo_symbol_add(onstack_symbol_table *table, size_t index, const char *name, const char *file, int64_t line,
                         int64_t start_line);

#endif
