/* SPDX-License-Identifier: MIT OR Apache-2.0 */
//go:build cgo && linux

/*
 * Why these cannot deadlock where others do: no lock, no allocation, no loader, no unwinder that takes them
 * (libgcc's, libunwind's); all tables were made before, by onstack_traceback_prepare.
 */
#include "cgotraceback.h"

#include "onstack_names.h"

#include "onstack.h"

#include "_cgo_export.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

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
#define CONTEXT_SKIP 1

void onstackgo_context(struct onstackgo_context_argument *argument) {
  if (argument->context >= CONTEXT_FIRST) {
    context_give((uint32_t)(argument->context - CONTEXT_FIRST));
    return;
  }
  if (argument->context == CONTEXT_EMPTY) return;
  argument->context = CONTEXT_EMPTY;
  onstack_registers registers;
  if (onstack_traceback_caller(CONTEXT_SKIP + 1, &registers) < 0) return;
  uint32_t number = context_take();
  if (number >= CONTEXT_COUNT) return;
  context_places[number].pc = registers.pc;
  context_places[number].sp = registers.sp;
  context_places[number].fp = registers.fp;
  argument->context = CONTEXT_FIRST + number;
}

/*
 * Go prints the first fifty frames of a stack, counts the rest and prints the last fifty (runtime/traceback.go,
 * traceback2). For each native frame that it only counts, Go 1.26 goes around two thousand million times in a loop that
 * nobody can interrupt: ten seconds, for the whole process where a garbage collection is due. So these passes get no
 * native frames. What tells them apart is where traceback2 returns to; its frame holds the buffer.
 */
static struct {
  uint32_t known; /* release / acquire */
  uint32_t index;
  uintptr_t prints, low, high;
} printer;

static struct {
  int32_t tid; /* who is watched; 0: nobody */
  uint32_t count;
  uintptr_t *last;
} printer_watch;

/* Loads that no sanitizer sees: they go over frames of others on this stack, between the deepest and the printer's callers. */
#define PRINTER_READS __attribute__((noinline, no_sanitize_address))

PRINTER_READS static uintptr_t printer_word(const struct onstackgo_traceback_argument *argument, uint32_t index) {
  return ((const volatile uintptr_t *)argument->buffer - ONSTACKGO_PRINTER_BELOW)[index];
}

static bool printer_is_watched(const struct onstackgo_traceback_argument *argument) {
  int32_t tid = __atomic_load_n(&printer_watch.tid, __ATOMIC_ACQUIRE);
  if (tid == 0 || tid != (int32_t)syscall(SYS_gettid)) return false;
  for (uint32_t i = 0; i < ONSTACKGO_PRINTER_WORDS; i++) printer_watch.last[i] = printer_word(argument, i);
  printer_watch.count++;
  return true;
}

static bool printer_skips(const struct onstackgo_traceback_argument *argument) {
  if (!__atomic_load_n(&printer.known, __ATOMIC_ACQUIRE)) return false;
  uintptr_t from = printer_word(argument, printer.index);
  return from >= printer.low && from < printer.high && from != printer.prints;
}

uint32_t onstackgo_printer_watch(int depth, uintptr_t last[ONSTACKGO_PRINTER_WORDS]) {
  printer_watch.count = 0;
  printer_watch.last = last;
  __atomic_store_n(&printer_watch.tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
  onstackgoPrint(depth);
  __atomic_store_n(&printer_watch.tid, 0, __ATOMIC_RELEASE);
  return printer_watch.count;
}

void onstackgo_printer_known(uint32_t index, uintptr_t prints, uintptr_t low, uintptr_t high) {
  printer.index = index;
  printer.prints = prints;
  printer.low = low;
  printer.high = high;
  __atomic_store_n(&printer.known, 1u, __ATOMIC_RELEASE);
}

void onstackgo_traceback(struct onstackgo_traceback_argument *argument) {
  onstack_registers registers = {0, 0, 0, 0, 0};
  uint32_t count = 0, max = (uint32_t)argument->max;
  bool known = true;
  if (argument->context != 0 && argument->sig_context == 0 && (printer_is_watched(argument) || printer_skips(argument))) {
    argument->buffer[0] = 0;
    return;
  }
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
