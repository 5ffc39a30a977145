/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a session knows of the interpreters in the process: the frames of an interpreted language are copied behind the walk
 * of the native ones (record_handler.c), and put into the place of the loop's frames when the sample is delivered
 * (onstack_interleave): only then is it known which native frames there are.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H
#define ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "sampler/unwind/module_statistics.h"

#include "onstack/interpreter.h"
#include "onstack/onstack.h"

#define ONSTACK_INTERPRETERS 3u /* providers of a session: those that are registered, and its own */

/* The exported symbols of an object, by which interpreters are found. */
typedef struct onstack_symbols_found {
  onstack_loop_code symbols[ONSTACK_FRAME_SYMBOLS]; /* zeros: it does not export that */
} onstack_symbols_found;

/* What earlier looks for the same symbols have found, so that objects are not looked at again each time that a library is
   opened or closed; all zero at first. Written only in visits of the loader's list, which a fork waits for. */
typedef struct onstack_symbols_memory {
  uint64_t looked; /* objects with numbers up to this one lack the symbols (platform/loader.h), */
  uint64_t hit;    /* but for this one; 0: none has them */
  onstack_symbols_found found;
} onstack_symbols_memory;

typedef struct onstack_interpreter {
  const onstack_frame_provider *provider;
  uint32_t ready; /* it is there (publish / observe). Where it has gone, 0 again */
  bool refused;   /* it is there, and is not asked again; consumer only, as what follows */
  uint32_t loop_count;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
  uint32_t own_count; /* of these, those of the object that the loop is in; code that it jumps to comes behind them */
  bool jumps;         /* ONSTACK_LOOP_JUMPS */
  onstack_symbols_memory symbols;
} onstack_interpreter;

/* Whether a frame of a native stack is a call of the interpreter's loop. Signal-safe. */
static inline __attribute__((unused)) ONSTACK_HANDLER bool
onstack_interpreter_is_loop(const onstack_interpreter *interpreter, const uint64_t *frames, uint32_t frame) {
  const uint64_t address = frames[frame] - (frame > 0);
  for (uint32_t i = 0; i < onstack_load_relaxed(&interpreter->loop_count); i++) {
    const onstack_loop_code *loop = &interpreter->loops[i];
    if (address >= onstack_load_relaxed(&loop->low) && address < onstack_load_relaxed(&loop->high)) return true;
  }
  return false;
}

/* The providers of a session. */
typedef struct onstack_interpreter_list {
  uint32_t count;
  const onstack_frame_provider *providers[ONSTACK_INTERPRETERS];
} onstack_interpreter_list;

/* Where the innermost call of the loop that the frames tell of is. */
typedef enum onstack_interpreted_leaf {
  ONSTACK_INTERPRETED_LEAF_UNKNOWN,
  ONSTACK_INTERPRETED_LEAF_IS,     /* it is the leaf */
  ONSTACK_INTERPRETED_LEAF_IS_NOT, /* it is not, and the leaf is another call of the loop */
  ONSTACK_INTERPRETED_LEAF_CALLED, /* it is the loop's innermost native frame, which has called others */
  ONSTACK_INTERPRETED_LEAF_GONE,   /* in none of these: a stack is being switched to (greenlet) */
} onstack_interpreted_leaf;

/* Stacks are switched in this process: more loops than calls were seen. Relaxed; once 1 it stays so. */
ONSTACK_INTERNAL_DATA uint32_t onstack_interpreted_switches;

/* In a ring entry with the flag ONSTACK_ENTRY_INTERPRETED, behind the labels. */
typedef struct onstack_interpreted {
  uint16_t count;
  uint8_t interpreter; /* whose frames they are */
  uint8_t cut;         /* there are more */
  uint8_t named;       /* the frames' functions are their addresses (platform/interpreted.h) */
  uint8_t leaf;        /* onstack_interpreted_leaf */
  uint8_t refused;     /* none, for the kernel copies no memory */
  uint8_t reserved;
  onstack_interpreted_frame frames[];
} onstack_interpreted;

#define ONSTACK_ENTRY_INTERPRETED 0x80u /* beside ONSTACK_SAMPLE_*, which no sink sees */

/* Bytes that an entry of `depth` frames needs for it while it is filled. */
#define ONSTACK_INTERPRETED_BYTES(depth)                                                                                    \
  ((uint32_t)(sizeof(onstack_interpreted) + (depth) * sizeof(onstack_interpreted_frame)) + ONSTACK_FRAME_SCRATCH)

/* A thread as it was interrupted, and its native frames. */
typedef struct onstack_interrupted {
  const onstack_registers *registers;
  const uint64_t *frames;
  uint32_t frame_count;
  bool whole; /* up to the thread's beginning */
  int32_t tid;
} onstack_interrupted;

/* Copies the frames of the calling thread, which is `interrupted`, by the first interpreter that has any,
   `capacity` at most. The room behind them is scratch: ONSTACK_FRAME_SCRATCH bytes. Signal-safe. */
ONSTACK_INTERNAL void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count,
                                               const onstack_interrupted *interrupted, uint32_t capacity,
                                               onstack_interpreted *out);

/* Bytes of what was copied. Signal-safe. */
static inline __attribute__((always_inline, unused)) uint32_t onstack_interpreted_used(const onstack_interpreted *copied) {
  return (uint32_t)(sizeof(*copied) + copied->count * sizeof(copied->frames[0]));
}

/* ---- ordinary threads ---- */

/* Finds the first object with the first `needed` of these symbols. Returns false if there is none. One at a time for each
   memory. */
ONSTACK_INTERNAL bool onstack_symbols_look(const char *const *names, uint32_t count, uint32_t needed,
                                           onstack_symbols_memory *memory, onstack_loop_code *found);

/* Writes the registered providers (onstack_frame_provider_register). */
ONSTACK_INTERNAL void onstack_providers_list(onstack_interpreter_list *list);

/* Returns true if the structure and its functions are such that a session can use the provider. */
ONSTACK_INTERNAL bool onstack_providers_check(const onstack_frame_provider *provider);

/* Call the provider's functions with memory that the kernel copies. prepare looks for symbols by `symbols`. */
ONSTACK_INTERNAL int onstack_provider_prepare(const onstack_frame_provider *provider, onstack_symbols_memory *symbols,
                                              onstack_loop_code loops[ONSTACK_LOOP_CODES]);
ONSTACK_INTERNAL bool onstack_provider_is_alive(const onstack_frame_provider *provider);

/* What the instructions of a loop tell, read by copies: its library may be unmapped at any instant. Each processor has its own
   file. */

/* Of a function that jumps to code which runs in its frame (sampler/unwind/generated_code.h) and begins at `address`: *size
   becomes the bytes between SP, behind the prologue, and its frame record; 0: it keeps none, and its rules say how far SP is
   from its caller's. Returns false if that code moves SP first. */
ONSTACK_INTERNAL bool onstack_loop_frame(uint64_t address, uint64_t *size);

/* Writes the parts of the function loops[0] that lie apart behind the `count` pieces that there are, and returns how many there
   are then: compilers put what seldom runs elsewhere (gcc, -freorder-blocks-and-partition: `.cold`). Milliseconds. */
ONSTACK_INTERNAL uint32_t onstack_loop_cold(onstack_loop_code loops[ONSTACK_LOOP_CODES], uint32_t count);

/* Where the table of unwind information (.eh_frame_hdr) of the object that holds this address lies; 0: none. */
ONSTACK_INTERNAL uint64_t onstack_loop_unwind_table(uint64_t address);

/* Puts the frames of an interpreted language into the places of the loop's frames in a native stack. */

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

/* The frames of interpreted languages that another thread runs, which is blocked. */

/*
 * Copies and names them, by the first interpreter that has any, `capacity` at most; the room behind them is scratch, as for
 * onstack_interpreted_copy. `hints`: ONSTACK_INTERPRETERS words that stay with the thread, 0 at first. Named at once: the
 * function that a thread waited in may be gone when its wait becomes a sample. False: it runs none. Ordinary threads.
 */
ONSTACK_INTERNAL bool onstack_interpreted_copy_of(const onstack_interpreter *interpreters, uint32_t count, uint32_t tid,
                                                  uint32_t capacity, uint64_t *hints, onstack_interpreted *out);

#endif
