/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether our handler may be installed with its own signal open (sampler/signal/nesting.h). Under the control lock. */
#ifndef ONSTACK_SAMPLER_SIGNAL_NESTING_FIT_H
#define ONSTACK_SAMPLER_SIGNAL_NESTING_FIT_H

#include "platform/defs.h"

/* The frames of so many sessions, and those of others, fit every alternate stack, as far as is known now. */
ONSTACK_INTERNAL bool onstack_nesting_fits(int signal, uint32_t sessions);

/* Whether an object of the process asks for alternate stacks (sigaltstack), which may be small. True where nobody knows. */
ONSTACK_INTERNAL bool onstack_nesting_others_ask(void);

/* Ours is going to be installed open: from now on each entry closes it. Before it is installed. */
ONSTACK_INTERNAL void onstack_nesting_open(void);

#endif
