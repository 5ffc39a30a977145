/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * .eh_frame of a loaded object that has no .eh_frame_hdr, so that its program headers do not say where the section is: gcc
 * links static programs so, and musl's gcc all programs. The section headers in the object's file say it. Ordinary threads.
 */
#ifndef ONSTACK_SAMPLER_MODULES_FRAME_SECTION_H
#define ONSTACK_SAMPLER_MODULES_FRAME_SECTION_H

#include "platform/defs.h"

/*
 * Finds the section of the object that is loaded at `base`, in the file at `path`: from *low up to *high in memory. False: the
 * file cannot be read, is not the one that is loaded, or has no such section.
 */
ONSTACK_INTERNAL bool onstack_frame_section_find(const char *path, uint64_t base, uint64_t *low, uint64_t *high);

#endif
