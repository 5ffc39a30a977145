/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The frames of interpreted languages that another thread runs, which is blocked. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_OTHERS_H
#define ONSTACK_SAMPLER_INTERPRETER_OTHERS_H

#include "sampler/interpreter/interpreter.h"

/*
 * Copies and names them, by the first interpreter that has any, `capacity` at most; the room behind them is scratch, as for
 * onstack_interpreted_copy. `hints`: ONSTACK_INTERPRETERS words that stay with the thread, 0 at first. Named at once: the
 * function that a thread waited in may be gone when its wait becomes a sample. False: it runs none. Ordinary threads.
 */
ONSTACK_INTERNAL bool onstack_interpreted_copy_of(const onstack_interpreter *interpreters, uint32_t count, uint32_t tid,
                                                  uint32_t capacity, uint64_t *hints, onstack_interpreted *out);

#endif
