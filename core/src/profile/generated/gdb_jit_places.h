/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which modules of the process have a list of registered images. */
#ifndef ONSTACK_PROFILE_GENERATED_GDB_JIT_PLACES_H
#define ONSTACK_PROFILE_GENERATED_GDB_JIT_PLACES_H

#include "profile/maps/maps.h"

/* The address of the descriptor in a mapping's module; 0: it has none. It is remembered for each file: large symbol tables
   are read once in a process. */
ONSTACK_INTERNAL uint64_t onstack_gdb_jit_descriptor(const onstack_profile_maps *maps,
                                                     const onstack_profile_mapping *mapping);

#endif
