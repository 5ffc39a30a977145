/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loaded objects that dl_iterate_phdr does not name: it tells of the caller's namespace, and dlmopen makes others. They are
 * found as what they are, files whose program header is mapped in front of their code. Ordinary threads.
 */
#ifndef ONSTACK_SAMPLER_MODULES_OTHER_OBJECTS_H
#define ONSTACK_SAMPLER_MODULES_OTHER_OBJECTS_H

#include "platform/defs.h"

#include <link.h>

/*
 * Calls `visit` for each object that is mapped as the loader would, with its bias, program header and path (cut when it is
 * very long), which live for the call. `read` copies memory that may be gone, and returns the bytes copied.
 */
ONSTACK_INTERNAL void onstack_other_objects_each(size_t (*read)(uint64_t address, void *out, size_t size),
                                                 void (*visit)(void *data, struct dl_phdr_info *object), void *data);

#endif
