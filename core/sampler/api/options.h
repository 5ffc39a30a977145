/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the public options and makes settings of them. */
#ifndef ONSTACK_SAMPLER_API_OPTIONS_H
#define ONSTACK_SAMPLER_API_OPTIONS_H

#include "sampler/session/settings.h"

/* `options` may be NULL. Returns 0 or ONSTACK_E_*, with the text of onstack_options_fault in *fault; touches nothing else. Any
   thread. */
ONSTACK_INTERNAL int onstack_settings_make(const onstack_options *options, onstack_settings *settings, const char **fault);

/* What only a look at the process can tell: with a Go runtime there is no choice of signal and stack. Results as above. */
ONSTACK_INTERNAL int onstack_settings_check_host(const onstack_settings *settings, const char **fault);

#endif
