/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_API_CHOOSE_H
#define ONSTACK_SAMPLER_API_CHOOSE_H

#include "sampler/session/settings.h"
#include "sampler/source/source.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/unwinder.h"

/* By name; NULL name: the default. NULL if there is none of that name. Start only. */
ONSTACK_INTERNAL const onstack_unwinder_ops *onstack_unwinder_find(const char *name);

/* That of an option's number (ONSTACK_CLOCK_*; 0: the default); NULL if there is none. Any thread. */
ONSTACK_INTERNAL const onstack_source *onstack_source_find(uint32_t number);

/* The best reader whose self-test passes on this system, now. Start only. *copy_works tells `probe` whether it has
   `copy` to fall back to. */
ONSTACK_INTERNAL const onstack_reader *onstack_reader_choose(bool *copy_works);

#endif
