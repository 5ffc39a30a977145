/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals of one moment. A tick of a thread's own timer and one of a timer of the process (Go's ITIMER_PROF, our process
 * clock) can expire together. The kernel delivers the thread's first. If the handler's mask blocks the signal, the kernel
 * hands the other one to another thread (kernel/signal.c, retarget_shared_pending): one that sleeps in poll, as a rule, and
 * gets EINTR.
 *
 * So where all their frames fit any alternate stack, ours is installed open (SA_NODEFER, its own signal not in the mask), and
 * the kernel stacks the frames of one moment before the first instruction of ours runs. Each entry then blocks the signal by
 * itself, and takes the outermost frame for what was interrupted. So nothing nests over a claimed ring entry, and an owner that
 * is forwarded to sees the host's code and not ours. A frame that does not fit would kill the process:
 * sampler/signal/nesting_fit.c says where they do.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_NESTING_H
#define ONSTACK_SAMPLER_SIGNAL_NESTING_H

#include "platform/atomics.h"
#include "platform/defs.h"

#include <signal.h>

typedef struct onstack_nesting {
  uint64_t least; /* bytes of the smallest alternate stack that the handler has met; 0: none */
  uint32_t watch; /* this process may be one where ours is open */
  uint32_t open;  /* ours was installed open once: frames of that time may still be under way */
} onstack_nesting;

ONSTACK_INTERNAL_DATA onstack_nesting onstack_nesting_state;

/* With `watch`: the first that the handler does. Blocks the signal, and returns the context of the code that was interrupted
   when the signals of this moment came. NULL: an owner has called the handler, with the signal open; it has gone on and has
   ended, and the mask is the owner's again, which no return to the kernel would restore. Signal-safe. */
ONSTACK_INTERNAL void *onstack_nesting_enter(int signal, siginfo_t *info, void *context, uint32_t trampoline);

/* What the handler does once the signal is blocked and the context known (sampler/source/entry_handler.c). */
ONSTACK_INTERNAL void onstack_handler_go_on(int signal, siginfo_t *info, void *context, uint32_t trampoline);

/* ---- whether ours may be installed open (nesting_fit.c). Under the control lock ---- */

/* The frames of so many sessions, and those of others, fit every alternate stack, as far as is known now. */
ONSTACK_INTERNAL bool onstack_nesting_fits(int signal, uint32_t sessions);

/* Whether an object of the process asks for alternate stacks (sigaltstack), which may be small. True where nobody knows. */
ONSTACK_INTERNAL bool onstack_nesting_others_ask(void);

/* Ours is going to be installed open: from now on each entry closes it. Before it is installed. */
ONSTACK_INTERNAL void onstack_nesting_open(void);

#endif
