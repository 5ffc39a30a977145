/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_API_CHOOSE_H
#define ONSTACK_SAMPLER_API_CHOOSE_H

#include "sampler/session/settings.h"
#include "sampler/source/clock.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/unwinder.h"

/* By name; NULL name: the default. NULL if there is none of that name. Start only. */
ONSTACK_INTERNAL const onstack_unwinder_ops *onstack_unwinder_find(const char *name);

/* That of an option's number (ONSTACK_CLOCK_*; 0: the default); NULL if there is none. Any thread. */
ONSTACK_INTERNAL const onstack_clock_ops *onstack_clock_find(uint32_t number);

/* The clock that a session gets: the one of its settings, or the next best that the kernel lets tick. 0 or ONSTACK_E_CLOCK.
   Start only. */
ONSTACK_INTERNAL int onstack_clock_choose(const onstack_settings *settings, const onstack_clock_ops **clock);

/* In the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_clocks_after_fork(void);

/* The best reader whose self-test passes on this system, now. Start only. *copy_works tells `probe` whether it has
   `copy` to fall back to. */
ONSTACK_INTERNAL const onstack_reader *onstack_reader_choose(bool *copy_works);

#endif
