/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the calls of the public header share: cancellation, exceptions of the host, structures with a size, kinds of samples.
 *
 * pthread_cancel on a thread that is inside this library. open, read, pthread_join and most of stdio are cancellation points:
 * a thread that is cancelled in one of them ends, keeps our locks, and leaks memory and descriptors. Therefore each public
 * function that reaches a cancellation point while it holds something begins with ONSTACK_UNCANCELLED. The macro disables
 * cancellation until the function returns. A cancellation request that arrives meanwhile stays pending, and takes effect at the
 * caller's next cancellation point.
 */
#ifndef ONSTACK_PLATFORM_CALLS_H
#define ONSTACK_PLATFORM_CALLS_H

#include "onstack/onstack.h"
#include "platform/defs.h"

#include <pthread.h>

static inline __attribute__((unused)) int onstack_uncancelled_begin(void) {
  int before = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

static inline __attribute__((unused)) void onstack_uncancelled_end(const int *before) {
  pthread_setcancelstate(*before, NULL);
}

/* May be nested. A callback of the host that leaves by pthread_exit is not supported; nothing is put back then. */
#define ONSTACK_UNCANCELLED                                                                                                 \
  const int onstack_uncancelled_before __attribute__((cleanup(onstack_uncancelled_end), unused)) =                          \
      onstack_uncancelled_begin()

/*
 * Functions of the host are called by C code that holds locks and memory; an exception that unwound it would leave both
 * behind. A function that calls one begins with ONSTACK_STOP_EXCEPTIONS: the search for a catch ends there, and with it
 * the program, by std::terminate, as in a C++ function that is noexcept. Forced unwinding (pthread_exit) has no search and goes
 * on; cancellation is disabled (above).
 */

/* A personality routine of the Itanium C++ ABI; only unwind tables refer to it. */
ONSTACK_INTERNAL int onstack_exceptions_stop(int version, int actions, uint64_t kind, void *exception, void *context);

/* 0x1b: the address is stored as 32 bits relative to its place. By name, because aarch64 has no constraint for it.
   Where the compiler writes no .cfi directives there is no unwind information, and the search ends by itself. */
#if defined(__linux__) && defined(__GCC_HAVE_DWARF2_CFI_ASM)
#define ONSTACK_STOP_EXCEPTIONS __asm__ volatile(".cfi_personality 0x1b, onstack_exceptions_stop")
#else
#define ONSTACK_STOP_EXCEPTIONS (void)0
#endif

/*
 * Structures of the public header that begin with their size (uint32_t), between a caller and a library of different ages.
 * What a shorter one lacks is zero. A longer one is of a newer header: in what is asked for, the rest must be zero; in what
 * is filled in, it becomes zero.
 *
 * What a structure must have at least is its size in version 0.1, never its size today: programs that were built when it was
 * shorter must go on. Each such number stands where the structure is read, as ..._SIZE_0_1. Of a structure that stays the
 * caller's (an unwinder, a provider) members that are new since then are read only where its `size` covers them.
 */

/* No structure of the public header will ever be longer: a larger `size` is an uninitialised field, and what lies behind
   the structure must not be touched. */
#define ONSTACK_SIZED_LIMIT 4096u

/* The shortest options that ever were: up to sink_data. */
#define ONSTACK_OPTIONS_SIZE_0_1 ((size_t)64)

/* Whether a structure of the caller is at least `least_bytes` long, and zero from `known_bytes` on. ONSTACK_E_OPTIONS: not. */
ONSTACK_INTERNAL int onstack_sized_check(const void *given, size_t known_bytes, size_t least_bytes);

/* The same, and copies it into `known`. */
ONSTACK_INTERNAL int onstack_sized_copy(void *known, size_t known_bytes, size_t least_bytes, const void *given);

/* Copies `known` into a structure of the caller, whose size becomes that of what is known. Errors: ONSTACK_E_OPTIONS. */
ONSTACK_INTERNAL int onstack_sized_fill(void *given, size_t least_bytes, const void *known, size_t known_bytes);

/* Reads a switch whose default is on. Errors: ONSTACK_E_OPTIONS for a value that is none of the three. */
ONSTACK_INTERNAL int onstack_switch_read(uint8_t value, bool *on);

/* Kinds of samples (ONSTACK_KIND_* in the public header), as an index, and their units. */

#define ONSTACK_KINDS 5u /* the known ones, and place 0, which is none */

/* As reports and statistics write it. */
static inline __attribute__((unused)) const char *onstack_unit_name(onstack_unit unit) {
  return unit == ONSTACK_UNIT_NANOSECONDS ? "nanoseconds" : unit == ONSTACK_UNIT_BYTES ? "bytes" : "count";
}

/* ONSTACK_UNIT_*; 0: no such kind. */
static inline __attribute__((unused)) onstack_unit onstack_kind_unit(onstack_kind kind) {
  static const uint8_t units[ONSTACK_KINDS] = {
      [ONSTACK_KIND_CPU] = ONSTACK_UNIT_NANOSECONDS,
      [ONSTACK_KIND_WALL] = ONSTACK_UNIT_NANOSECONDS,
      [ONSTACK_KIND_ALLOCATION] = ONSTACK_UNIT_BYTES,
      [ONSTACK_KIND_DUMP] = ONSTACK_UNIT_COUNT,
  };
  return kind < ONSTACK_KINDS ? units[kind] : 0;
}

#endif
