/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Go cannot say by itself: C callbacks that carry a handle of Go, and a write in one call. The handle is a number
 * (runtime/cgo.Handle), never a pointer into Go's memory.
 */
#ifndef ONSTACKGO_BRIDGE_H
#define ONSTACKGO_BRIDGE_H

#include "onstack_names.h"

#include "onstack.h"

/* Options for a session without threads whose samples go to `profile`. */
int onstackgo_options(onstack_options *options, onstack_profile *profile);

/* The forms of a written profile. */
enum { ONSTACKGO_PPROF, ONSTACKGO_FOLDED };

/* Writes the profile; the bytes go to an exported Go function with `handle`. Errors: those of onstack_profile_write_pprof. */
int onstackgo_write(onstack_profile *profile, int form, const onstack_write_options *options, uintptr_t handle);

/* The symbolizer and the demangler: they ask Go. */
int onstackgo_on_addresses(void *nothing, const uint64_t *addresses, size_t count, onstack_symbol_table *table);
size_t onstackgo_on_name(void *nothing, const char *system_name, char *out, size_t capacity);

/* The session's statistics as lines, which go where onstackgo_write's bytes go. */
int onstackgo_stats_text(onstack_session *session, uintptr_t handle);

/* The account of the process's memory as lines, likewise. `session` NULL: none. The numbers are Go's own, in bytes. */
int onstackgo_memory_text(onstack_session *session, uint64_t object, uint64_t in_use, uint64_t stacks, uint64_t other,
                          uint64_t idle, uintptr_t handle);

/* Of the plug-in in onstack_core.c: frames of CPython and PHP for sessions that ask for them, and for dumps. */
ONSTACK_API int onstack_interpreters_register(void);

/* onstack_dump; the text goes where onstackgo_write's bytes go. */
int onstackgo_dump(const onstack_write_options *options, uintptr_t handle);

/* Calls onstackgoModule with `handle` for each module that samples of the session were in. */
int onstackgo_modules(onstack_session *session, uintptr_t handle);

/* onstack_symbol_add for strings that live during the call; start_line and line 0: unknown. */
int onstackgo_symbol_add(onstack_symbol_table *table, size_t index, const char *name, const char *file, int64_t line,
                         int64_t start_line);

#endif
