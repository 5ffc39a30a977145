/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks the public options and makes settings of them. */
#ifndef ONSTACK_CONTROL_OPTIONS_H
#define ONSTACK_CONTROL_OPTIONS_H

#include "control/settings.h"

/* `options` may be NULL. Returns 0 or ONSTACK_E_*; touches nothing outside `settings`. Any thread. */
ONSTACK_INTERNAL int onstack_settings_make(const onstack_options *options, onstack_settings *settings);

#endif
