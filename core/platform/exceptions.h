/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions of the host are called by C code that holds locks and memory; an exception that unwound it would leave both
 * behind. A function that calls one begins with ONSTACK_STOP_EXCEPTIONS: the search for a catch ends there, and with it
 * the program, by std::terminate, as in a C++ function that is noexcept. Forced unwinding (pthread_exit) has no search and goes
 * on; cancellation is disabled (platform/uncancelled.h).
 */
#ifndef ONSTACK_PLATFORM_EXCEPTIONS_H
#define ONSTACK_PLATFORM_EXCEPTIONS_H

#include "platform/defs.h"

/* A personality routine of the Itanium C++ ABI; only unwind tables refer to it. */
ONSTACK_INTERNAL int onstack_exceptions_stop(int version, int actions, uint64_t kind, void *exception, void *context);

/* 0x1b: the address is stored as 32 bits relative to its place. By name, because aarch64 has no constraint for it.
   Where the compiler writes no .cfi directives there is no unwind information, and the search ends by itself. */
#if defined(__linux__) && defined(__GCC_HAVE_DWARF2_CFI_ASM)
#define ONSTACK_STOP_EXCEPTIONS __asm__ volatile(".cfi_personality 0x1b, onstack_exceptions_stop")
#else
#define ONSTACK_STOP_EXCEPTIONS (void)0
#endif

#endif
