/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A dump as text: threads with the same stack stand together, above it; the group of the lowest thread id comes first. */
#ifndef ONSTACK_PROFILE_TEXT_H
#define ONSTACK_PROFILE_TEXT_H

#include "platform/defs.h"
#include "profile/store/output.h"

#include "onstack/profile.h"

/* A line that no reader takes for two, whatever the thread calls itself. */
ONSTACK_INTERNAL void onstack_threads_text_thread(onstack_profile_output *output, int32_t tid, const char *name);

/* The profile's samples of ONSTACK_KIND_DUMP. Errors: OPTIONS, -ENOMEM, the symbolizer's; the output's. */
ONSTACK_INTERNAL int onstack_threads_text(onstack_profile *profile, const onstack_write_options *options,
                                          onstack_profile_output *output);

#endif
