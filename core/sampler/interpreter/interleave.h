/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Puts the frames of an interpreted language into the places of the loop's frames in a native stack. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_INTERLEAVE_H
#define ONSTACK_SAMPLER_INTERPRETER_INTERLEAVE_H

#include "sampler/unwind/module_statistics.h"
#include "sampler/interpreter/interpreter.h"

typedef struct onstack_interleave_counters {
  uint64_t interpreted, cut, unmatched, unnamed;
} onstack_interleave_counters;

/*
 * Each native frame of the loop is a call of it, and runs the frames up to the next ENTRY; both are in order from the leaf on.
 * Where their numbers do not agree the frames are left out: they were copied in the instants of a call or a return. A stack
 * that is cut has fewer calls; the frames that lie behind its end are not shown, for what lies between is not known. One that
 * was switched to (greenlet, gevent, another interpreter of the process) lies upon native frames whose calls are not its own:
 * where an interpreter tells which call its innermost frames are in, the outer loops stay native.
 *
 * The frames are named first, in their places in *interpreted, unless they are already. `frames`: room for `capacity`; *stack
 * is made to point there if frames come into it. Consumer only.
 */
ONSTACK_INTERNAL void onstack_interleave(const onstack_interpreter *interpreter, onstack_interpreted *interpreted,
                                         onstack_walked *stack, uint64_t *frames, uint32_t capacity,
                                         onstack_interleave_counters *counters);

#endif
