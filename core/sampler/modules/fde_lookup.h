/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rule of one address straight from the loaded object, by the search table of .eh_frame_hdr (LSB 5.0, 10.6.2), as
 * libgcc's unwinder finds its FDEs: some microseconds, where a whole table of a large library takes tens of milliseconds.
 * Ordinary threads; all by copies, since the object may be unloaded meanwhile.
 */
#ifndef ONSTACK_SAMPLER_MODULES_FDE_LOOKUP_H
#define ONSTACK_SAMPLER_MODULES_FDE_LOOKUP_H

#include "sampler/unwind/rules.h"
#include "platform/defs.h"

/* Where an object's .eh_frame_hdr lies, and the memory that its frames may lie in. */
typedef struct onstack_fde_source {
  uint64_t header, low, high;
} onstack_fde_source;

#define ONSTACK_FDE_POINTS 256u
#define ONSTACK_FDE_COMMONS 4u
#define ONSTACK_FDE_COMMON_BYTES 64u /* a CIE has some 24 */

/* A CIE that was read before. */
typedef struct onstack_fde_common {
  uint64_t address; /* 0: none */
  uint32_t size;
  uint8_t bytes[ONSTACK_FDE_COMMON_BYTES];
} onstack_fde_common;

/* What earlier look-ups in an object have read, each piece at a system call; all zero at first. It holds for this object and
   no other that comes to lie there. */
typedef struct onstack_fde_index {
  uint64_t table;                         /* where the search table begins, */
  uint32_t count;                         /* and how many entries it has; 0: not known */
  uint64_t functions[ONSTACK_FDE_POINTS]; /* where the functions of so many entries begin, evenly spaced; 0: not known */
  onstack_fde_common commons[ONSTACK_FDE_COMMONS];
} onstack_fde_index;

/* False: no FDE covers the address, or it is not of the usual form; a whole table may know more. One at a time. */
ONSTACK_INTERNAL bool onstack_fde_lookup(const onstack_fde_source *source, onstack_fde_index *index, uint64_t address,
                                         onstack_rule *rule);

/* The same rule at an address that stays for good; NULL: there are too many, or no memory. One at a time. */
ONSTACK_INTERNAL const onstack_rule *onstack_fde_intern(const onstack_rule *rule);

/* ---- where .eh_frame is -------------------------------------------------------------------------------------------------- */

/*
 * .eh_frame of a loaded object that has no .eh_frame_hdr, so that its program headers do not say where the section is: gcc
 * links static programs so, and musl's gcc all programs. The section headers in the object's file say it. Ordinary threads.
 */

/*
 * Finds the section of the object that is loaded at `base`, in the file at `path`: from *low up to *high in memory. False: the
 * file cannot be read, is not the one that is loaded, or has no such section.
 */
ONSTACK_INTERNAL bool onstack_frame_section_find(const char *path, uint64_t base, uint64_t *low, uint64_t *high);

#endif
