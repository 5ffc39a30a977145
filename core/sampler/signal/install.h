/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Puts a handler of ours in place of what is there, in one step. Ordinary threads, under the lock of all copies. */
#ifndef ONSTACK_SAMPLER_SIGNAL_INSTALL_H
#define ONSTACK_SAMPLER_SIGNAL_INSTALL_H

#include "platform/defs.h"
#include "platform/sys.h"

/*
 * Installs `handler` with these flags (SA_SIGINFO, SA_ONSTACK, SA_RESTART, SA_NODEFER) and every signal blocked, but with
 * SA_NODEFER its own. `*installed` is the
 * action as the kernel keeps it; `*was` what was there at the instant of the change, which is not `now`, the action that
 * the caller saw, if another thread came between. Once libc has been met (the first call) the kernel writes `*was` itself.
 * Returns 0 or -errno, and then nothing has changed.
 */
ONSTACK_INTERNAL int onstack_install(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                                     struct onstack_kernel_sigaction *installed, struct onstack_kernel_sigaction *was);

#endif
