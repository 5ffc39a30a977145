/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * nongnu libunwind as a user's unwinder: a separate, optional library (libonstack-libunwind.a, needs -lunwind), built
 * only on the public header. It is here to compare with and to show how another unwinder is plugged in.
 *
 * It is not as safe as the built-in ones: libunwind takes locks of the dynamic linker when it meets an object for the
 * first time (dl_iterate_phdr), so a tick that interrupts dlopen can deadlock, and it costs some 11 us at depth 20. Use
 * it where nothing is loaded or unloaded while sampling.
 */
#ifndef ONSTACK_LIBUNWIND_H
#define ONSTACK_LIBUNWIND_H

#include <onstack/onstack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For onstack_options.custom_unwinder. Static; the same for all sessions. Context: any thread. */
const onstack_unwinder *onstack_libunwind(void);

#ifdef __cplusplus
}
#endif

#endif
