/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The check that a return address follows a call, or is an entry that is only returned to (arch.h), once for each new one. A
 * walk marks the frames whose return address the PC cache does not know as proven; the code in front of them is read later,
 * where a sample leaves the ring. Reading it in the handler made a sample with twenty new callers cost four times as much.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_CALL_SITE_CHECK_H
#define ONSTACK_SAMPLER_UNWIND_CALL_SITE_CHECK_H

#include "platform/defs.h"

/* In the byte that says how a walk came from a frame to its caller (unwinder.h): the caller has to be proven yet. */
#define ONSTACK_BY_UNPROVEN 0x80u
#define ONSTACK_BY_UNLISTED 0x40u /* and to be looked for in the map of code, which was older than the sample */

/*
 * Proves the marked frames of one stack, takes their marks away, and tells the PC cache. Returns how many frames can be
 * believed: all, or those before the first that is no code or that nobody returns to. Code that cannot be read (unloaded since,
 * or execute-only) proves nothing either way, and its frames stay. Code that was unloaded and replaced since may cut a true
 * stack; it never lengthens one. A frame that is no code keeps its mark. Signal-safe; any thread.
 */
ONSTACK_INTERNAL uint32_t onstack_call_sites_check(const uint64_t *frames, uint8_t *unwound_by, uint32_t count);

/*
 * Returns true if a stack ends at its root because its first `believed` frames are all that can be believed. A program that
 * makes a stack (makecontext, boost.context, libco) writes the first return address by hand, and no call precedes it. That
 * is certain only if .eh_frame led through all frames below: a frame pointer may have found any word. The interrupted
 * function alone does not suffice, because assembly may push words without saying so. Signal-safe; any thread.
 */
ONSTACK_INTERNAL bool onstack_call_sites_end(const uint8_t *unwound_by, uint32_t believed);

#endif
