/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The entries of .eh_frame: what functions have in common (CIE), and each function's own (FDE). onstack_cfi_each is
   declared in control/unwind/cfi.h. */
#ifndef ONSTACK_CONTROL_UNWIND_CFI_ENTRY_H
#define ONSTACK_CONTROL_UNWIND_CFI_ENTRY_H

#include "control/unwind/cfi.h"
#include "control/unwind/cfi_reader.h"

/* Opens the FDE at `entry`: *instructions is left at its instructions, and section->common is its CIE. False: it is
   none, or malformed. */
ONSTACK_INTERNAL bool onstack_cfi_open(onstack_cfi_section *section, uint32_t entry, onstack_cfi_reader *instructions);

#endif
