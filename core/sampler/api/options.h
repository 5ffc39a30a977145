/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the public options and makes settings of them. */
#ifndef ONSTACK_SAMPLER_API_OPTIONS_H
#define ONSTACK_SAMPLER_API_OPTIONS_H

#include "sampler/session/settings.h"
#include "sampler/source/source.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/unwinder.h"

/* `options` may be NULL. Returns 0 or ONSTACK_E_*, with the text of onstack_options_fault in *fault; touches nothing else. Any
   thread. */
ONSTACK_INTERNAL int onstack_settings_make(const onstack_options *options, onstack_settings *settings, const char **fault);

/* What only a look at the process can tell: with a Go runtime there is no choice of signal and stack. Results as above. */
ONSTACK_INTERNAL int onstack_settings_check_host(const onstack_settings *settings, const char **fault);

/* By name; NULL name: the default. NULL if there is none of that name. Start only. */
ONSTACK_INTERNAL const onstack_unwinder_ops *onstack_unwinder_find(const char *name);

/* That of an option's number (ONSTACK_CLOCK_*; 0: the default); NULL if there is none. Any thread. */
ONSTACK_INTERNAL const onstack_source *onstack_source_find(uint32_t number);

/* The best reader whose self-test passes on this system, now. Start only. *copy_works tells `probe` whether it has
   `copy` to fall back to. */
ONSTACK_INTERNAL const onstack_reader *onstack_reader_choose(bool *copy_works);

#endif
