/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names for people, by the host's demangler. */
#ifndef ONSTACK_PROFILE_ELF_DEMANGLE_H
#define ONSTACK_PROFILE_ELF_DEMANGLE_H

#include "profile/elf/symbol_table.h"

/* Asks the demangler (may be NULL) for each distinct name that is a symbol's alone. Called without any lock of ours.
   Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_demangle(onstack_symbol_table *table, onstack_demangler demangler, void *data);

#endif
