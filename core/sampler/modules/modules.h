/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loaded objects and their rule tables: who is there, whose table is derived, whose is retired. Ordinary threads;
 * all functions take the map lock by themselves unless they say otherwise.
 */
#ifndef ONSTACK_SAMPLER_MODULES_MODULES_H
#define ONSTACK_SAMPLER_MODULES_MODULES_H

#include "sampler/unwind/rules.h"
#include "platform/defs.h"

#include <link.h>

/*
 * Notices objects that came and went (one call into the loader when none did) and derives tables that are missing, those
 * of the smallest sections first, until `budget_bytes` of sections have been read (at least one; none for 0). Returns
 * true while there are tables to be derived now; one that there was no memory for is tried again some time later, and its
 * module stays pending. Retired tables are unmapped when no handler can be reading them.
 */
ONSTACK_INTERNAL bool onstack_modules_refresh(size_t budget_bytes);

/* Derives the table of the module that holds an address, if that has not been tried; false: there is no such module. */
ONSTACK_INTERNAL bool onstack_modules_derive(uint64_t address);

/*
 * Makes the rule of one address known to walks (onstack_described_find), where its module's table is missing and large; else as
 * above. For programs that end before a table has paid: a module that is asked for so often that its table would have taken no
 * longer has the table.
 */
ONSTACK_INTERNAL bool onstack_modules_describe(uint64_t address);

/* The path behind onstack_module.number; "" for 0. Lives for ever. */
ONSTACK_INTERNAL const char *onstack_modules_path(uint32_t number);

/* In the child of a fork: the lock is nobody's, a half-written map is empty. */
ONSTACK_INTERNAL void onstack_modules_after_fork(void);

/* ---- readers of tables --------------------------------------------------------------------------------------------------- */

/* Returns true if every reader that may have seen a rule table or a Go function table before the call has left. Ordinary
   threads. */
ONSTACK_INTERNAL bool onstack_readers_have_left(void);

/* Walks on demand are counted by themselves; `left` answers for the handlers of sessions. Call once, before the first of
   them. */
ONSTACK_INTERNAL void onstack_readers_are_asked_by(bool (*left)(void));

/* ---- objects of other namespaces ----------------------------------------------------------------------------------------- */

/*
 * Loaded objects that dl_iterate_phdr does not name: it tells of the caller's namespace, and dlmopen makes others. They are
 * found as what they are, files whose program header is mapped in front of their code. Ordinary threads.
 */

/*
 * Calls `visit` for each object that is mapped as the loader would, with its bias, program header and path (cut when it is
 * very long), which live for the call. `read` copies memory that may be gone, and returns the bytes copied.
 */
ONSTACK_INTERNAL void onstack_other_objects_each(size_t (*read)(uint64_t address, void *out, size_t size),
                                                 void (*visit)(void *data, struct dl_phdr_info *object), void *data);

#endif
