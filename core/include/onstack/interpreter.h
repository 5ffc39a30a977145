/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: frames of interpreted languages.
 * onstack/onstack.h explains the terms, the contexts and the results; onstack_interpreted(3) has more.
 *
 * An interpreter runs its language's functions in one native function, the loop. A frame provider knows one interpreter: it
 * finds the loop, copies the language's frames in the signal handler, and names them later. The library puts them in place of
 * the loop's native frames. Their addresses have the top byte ONSTACK_INTERPRETED_BYTE, where no process has code.
 */
#ifndef ONSTACK_INTERPRETER_H
#define ONSTACK_INTERPRETER_H

#include "onstack/onstack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ONSTACK_INTERPRETED_BYTE 0xC0

/* A frame of the language. The provider chooses the meaning of both numbers. */
typedef struct onstack_interpreted_frame {
  uint64_t function; /* identifies the function: the address of a code object */
  uint32_t position; /* identifies the position in the function */
  uint32_t flags;    /* ONSTACK_INTERPRETED_* */
} onstack_interpreted_frame;

#define ONSTACK_INTERPRETED_ENTRY 1u     /* native code called this function; the loop's native frame ends here */
#define ONSTACK_INTERPRETED_EMPTY 2u     /* no frame: the loop's native frame, which ENTRY ends, runs no function now */
#define ONSTACK_INTERPRETED_OWN_SHIFT 8u /* the bits from this one on belong to the provider: `describe` sees them again */
#define ONSTACK_INTERPRETED_CUT 0x80000000u /* added to the result of `copy` if some frames could not be read */

/* A range of code: a piece of the interpreter's loop, or a symbol. */
typedef struct onstack_loop_code {
  uint64_t low;  /* the first address */
  uint64_t high; /* the address after the last */
} onstack_loop_code;
#define ONSTACK_LOOP_CODES 4
/* Added to the result of `prepare` if the loop jumps to code that is generated at run time and has no frame of its own. Such
   code is in shared memory without a name, as PHP's compiler makes it. */
#define ONSTACK_LOOP_JUMPS 0x100

/* What the functions of a provider work with. */
typedef struct onstack_frame_memory onstack_frame_memory;
struct onstack_frame_memory {
  /* Copies memory of the process without a fault. Returns 1 if it read all bytes. It takes about a microsecond. Signal-safe. */
  uint32_t (*read)(uint64_t address, void *to, uint32_t bytes);
  /* Reads an aligned word that only the calling thread can unmap: its stack or thread-local storage. Returns 0 if the address
     is not mapped. It takes a tenth of the time of `read`. Signal-safe. */
  uint32_t (*read_own)(uint64_t address, uint64_t *word);
  void *scratch;           /* working memory with any content, for copy and copy_of */
  uint32_t scratch_bytes;  /* at least ONSTACK_FRAME_SCRATCH */
  int32_t tid;             /* the thread whose frames are copied */
  uint64_t thread_pointer; /* the calling thread's (x86_64: the base of FS; aarch64: TPIDR_EL0); 0: none */
  /* For copy of a provider with is_innermost. It receives an address in the native frame of the innermost call of the loop that
     the frames belong to; 0, its value at first, means unknown. */
  uint64_t *place;
  /* For prepare: finds the first loaded object that exports the first `needed` of `count` names, and writes the ranges of all
     symbols, with zeros for those that it does not export. At most ONSTACK_FRAME_SYMBOLS. Returns 0 if there is no object. */
  uint32_t (*find)(const onstack_frame_memory *memory, const char *const *names, uint32_t count, uint32_t needed,
                   onstack_loop_code *found);
};
#define ONSTACK_FRAME_SYMBOLS 8
#define ONSTACK_FRAME_SCRATCH 8192

/* The name of a frame. */
typedef struct onstack_frame_text {
  uint32_t size;       /* in: sizeof(onstack_frame_text) */
  uint32_t line;       /* 0: unknown */
  uint32_t start_line; /* the function's first line; 0: unknown */
  uint32_t flags;      /* ONSTACK_TEXT_* */
  char function[256];  /* UTF-8, cut if it is longer */
  char file[512];      /* the source file */
  char language[16];   /* the provider's name; the library fills it in */
} onstack_frame_text;
#define ONSTACK_TEXT_NATIVE 1u /* the function is native code, and no frame of the loop belongs to it */

/*
 * A provider. The options' tag `struct onstack_frame_provider` is declared in onstack/onstack.h.
 * Ownership: keep the structure and its pointers alive until the process ends, because names are read after a session, too.
 */
struct onstack_frame_provider {
  uint32_t size;        /* sizeof(onstack_frame_provider) */
  uint32_t stack_bytes; /* the most signal stack that `copy` uses */
  const char *name;     /* the language, at most 15 bytes: "python" */
  void *data;           /* the first argument of the functions */
  /*
   * Finds the interpreter and writes the ranges of its loop. The library finds the parts of the first range that a compiler has
   * moved elsewhere.
   * Context: an ordinary thread, one call at a time, at start and after each load or unload. `copy` may run as soon as it
   *   returns, so all that `copy` reads must be ready.
   * Returns: the number of ranges, plus ONSTACK_LOOP_JUMPS if it applies; 0 if there is no interpreter; -EAGAIN if it
   *   has not started yet, to be called again soon; another -errno or ONSTACK_E_* if the provider cannot follow it, to be
   *   called no more.
   */
  int (*prepare)(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]);
  /*
   * Copies the frames of the interrupted thread, innermost first, at most `capacity`.
   * Context: the signal handler, as onstack_unwinder.walk.
   * Returns: the number of frames, plus ONSTACK_INTERPRETED_CUT if some are missing; 0 if the thread runs none.
   */
  uint32_t (*copy)(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames, uint32_t capacity);
  /*
   * Copies the frames of another thread, memory->tid, which is blocked. If the thread runs meanwhile, the library discards the
   * result. *hint belongs to that thread and is 0 at first. `read_own` equals `read`. NULL: stacks of blocked threads stay
   * native.
   * Context: ordinary threads, several at once.
   */
  uint32_t (*copy_of)(void *data, const onstack_frame_memory *memory, uint64_t *hint, onstack_interpreted_frame *frames,
                      uint32_t capacity);
  /*
   * Names a frame, milliseconds after it was copied. The function may be gone.
   * Context: an ordinary thread, one call at a time.
   * Returns: 0, or another number if the frame cannot be named.
   */
  int (*describe)(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                  onstack_frame_text *text);
  /*
   * Returns 0 if the interpreter that `prepare` found has ended or begun anew; the library then calls `prepare` again. It is
   * called a few times a second and must take microseconds. NULL: the interpreter ends when its object is unloaded.
   * Context: an ordinary thread.
   */
  int (*is_alive)(void *data, const onstack_frame_memory *memory);
  /*
   * Returns 0 if inner calls of the loop may have frames that `copy` does not find. NULL: `copy` writes no memory->place.
   * Context: an ordinary thread.
   */
  int (*is_innermost)(void *data, const onstack_frame_memory *memory);
};

/*
 * Registers a provider for sessions that start later with options.interpreters, and for dumps. There is room for two; a second
 * registration of one provider has no effect. libonstack-interpreters has providers for CPython and PHP
 * (onstack/interpreters.h).
 * Context: any thread.
 * Errors: OPTIONS if a member is missing, -ENOSPC.
 */
ONSTACK_API int onstack_frame_provider_register(const onstack_frame_provider *provider);

/*
 * Names a frame of a sample whose top byte is ONSTACK_INTERPRETED_BYTE. Profiles name such frames themselves.
 * Context: any thread.
 * Errors: OPTIONS (NULL, a wrong size, or another kind of address).
 */
ONSTACK_API int onstack_interpreted_describe(uint64_t frame, onstack_frame_text *text);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_INTERPRETER_H */
