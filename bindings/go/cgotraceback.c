/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

/*
 * Why these cannot deadlock where others do: no lock, no allocation, no loader, no unwinder that takes them
 * (libgcc's, libunwind's); all tables were made before, by onstack_traceback_prepare.
 */
#include "cgotraceback.h"

#include "onstack_names.h"

#include "onstack.h"

#include <signal.h>
#include <stdbool.h>

/*
 * A callback from C to Go needs four words until it returns, and Go keeps only one: a place in this table. Where it is
 * full (so many callbacks at once, or nested), the context is EMPTY, which shows no frames: Go pairs contexts with
 * callbacks by their number, so none may be missing.
 */
#define CONTEXT_COUNT 8192u
#define CONTEXT_EMPTY ((uintptr_t)1)
#define CONTEXT_FIRST ((uintptr_t)2)

typedef struct context_place {
  uint64_t pc, sp, fp;
  uint32_t next; /* free places: the next one's number plus 1 */
} context_place;

static context_place context_places[CONTEXT_COUNT];
static uint32_t context_used; /* places that were never given out begin here */
/* The free list: number plus 1 in the low half; the high half changes with each change, so that an old head that came
   back is not taken for the same list. */
static uint64_t context_free;

static uint32_t context_take(void) {
  uint64_t head = __atomic_load_n(&context_free, __ATOMIC_ACQUIRE);
  while ((uint32_t)head != 0) {
    uint32_t number = (uint32_t)head - 1;
    uint64_t rest = ((head >> 32) + 1) << 32 | __atomic_load_n(&context_places[number].next, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&context_free, &head, rest, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return number;
  }
  if (__atomic_load_n(&context_used, __ATOMIC_RELAXED) >= CONTEXT_COUNT) return CONTEXT_COUNT;
  return __atomic_fetch_add(&context_used, 1, __ATOMIC_RELAXED);
}

static void context_give(uint32_t number) {
  uint64_t head = __atomic_load_n(&context_free, __ATOMIC_RELAXED), next;
  do {
    __atomic_store_n(&context_places[number].next, (uint32_t)head, __ATOMIC_RELAXED);
    next = ((head >> 32) + 1) << 32 | (number + 1);
  } while (!__atomic_compare_exchange_n(&context_free, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

/*
 * Called by _cgo_wait_runtime_init_done (runtime/cgo/gcc_libinit.c), called by the stub of the exported Go function:
 * the stub's frame is the first that stays during the callback.
 */
#define CONTEXT_CLIMB 1

void onstackgo_context(struct onstackgo_context_argument *argument) {
  if (argument->context >= CONTEXT_FIRST) {
    context_give((uint32_t)(argument->context - CONTEXT_FIRST));
    return;
  }
  if (argument->context == CONTEXT_EMPTY) return;
  argument->context = CONTEXT_EMPTY;
  onstack_registers registers;
  if (onstack_traceback_caller(CONTEXT_CLIMB + 1, &registers) < 0) return;
  uint32_t number = context_take();
  if (number >= CONTEXT_COUNT) return;
  context_places[number].pc = registers.pc;
  context_places[number].sp = registers.sp;
  context_places[number].fp = registers.fp;
  argument->context = CONTEXT_FIRST + number;
}

void onstackgo_traceback(struct onstackgo_traceback_argument *argument) {
  onstack_registers registers = {0, 0, 0, 0, 0};
  uint32_t count = 0, max = (uint32_t)argument->max;
  bool known = true;
  if (argument->context >= CONTEXT_FIRST) {
    const context_place *place = &context_places[argument->context - CONTEXT_FIRST];
    registers.pc = place->pc;
    registers.sp = place->sp;
    registers.fp = place->fp;
  } else if (argument->context == CONTEXT_EMPTY) {
    known = false;
  } else if (argument->sig_context) {
    onstack_traceback_interrupted((const void *)argument->sig_context, &registers);
  } else {
    known = onstack_traceback_caller(0, &registers) == 0;
  }
  if (known) count = onstack_traceback_walk(&registers, (uint64_t *)argument->buffer, max);
  if (count < max) argument->buffer[count] = 0;
}

/* In a signal handler Go blocks every signal: then the process may be about to die inside malloc. */
static bool symbolizer_may_allocate(void) {
  sigset_t blocked;
  return pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGPROF);
}

/* One name an address; no file and line, which would have to be read in a process that may be about to die. */
void onstackgo_symbolizer(struct onstackgo_symbolizer_argument *argument) {
  uint64_t entry = 0;
  if (argument->pc && onstack_traceback_is_stale() && symbolizer_may_allocate()) onstack_traceback_prepare();
  argument->file = NULL;
  argument->line = 0;
  argument->more = 0;
  argument->function = argument->pc ? onstack_traceback_symbol(argument->pc, &entry) : NULL;
  argument->entry = (uintptr_t)entry;
}
