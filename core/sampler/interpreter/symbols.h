/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Exported symbols of the object that an interpreter lies in. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_SYMBOLS_H
#define ONSTACK_SAMPLER_INTERPRETER_SYMBOLS_H

#include "platform/defs.h"
#include "onstack/interpreter.h"

#define ONSTACK_SYMBOLS_MOST 8u

typedef struct onstack_symbols_wanted {
  uint32_t count, needed; /* the first `needed` of them tell the object */
  const char *names[ONSTACK_SYMBOLS_MOST];
} onstack_symbols_wanted;

typedef struct onstack_symbols_found {
  uint64_t address[ONSTACK_SYMBOLS_MOST]; /* 0: it does not export that */
  uint64_t size[ONSTACK_SYMBOLS_MOST];
  uint64_t eh_frame_header; /* of the object (.eh_frame_hdr, as loaded); 0: none */
} onstack_symbols_found;

/* What earlier looks for the same symbols have found, so that objects are not looked at again each time that a library is
   opened or closed; all zero at first. Written only in visits of the loader's list, which a fork waits for. */
typedef struct onstack_symbols_memory {
  uint64_t looked; /* objects with numbers up to this one lack the symbols (platform/loader.h), */
  uint64_t hit;    /* but for this one; 0: none has them */
  onstack_symbols_found found;
} onstack_symbols_memory;

/* Finds the first object with all that are needed. `memory` may be NULL. Returns false if there is none. One at a time for each
   memory; ordinary threads. */
ONSTACK_INTERNAL bool onstack_symbols_look(const onstack_symbols_wanted *wanted, onstack_symbols_memory *memory,
                                           onstack_symbols_found *found);

/* Writes the code of the function that is symbol `which`; returns how many pieces it has. Milliseconds; ordinary threads. */
ONSTACK_INTERNAL int onstack_symbols_loop(const onstack_symbols_found *found, uint32_t which,
                                          onstack_loop_code loops[ONSTACK_LOOP_CODES]);

#endif
