/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program's own file. */
#ifndef ONSTACK_PLATFORM_OWN_EXECUTABLE_H
#define ONSTACK_PLATFORM_OWN_EXECUTABLE_H

#include "platform/defs.h"

/*
 * Returns the link in /proc that leads to the program's file, even if that file was renamed or deleted. /proc/self is the first
 * thread's directory and loses the link when that thread has ended before the others; then it is /proc/thread-self/exe (Linux
 * 3.17). Not the latter alone: qemu-user emulates /proc/self/exe only. Context: ordinary threads; keeps errno.
 */
ONSTACK_INTERNAL const char *onstack_own_executable(void);

#endif
