/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sessions of the copy of onstack that a program is linked with. */
#ifndef COEXIST_SESSION_H
#define COEXIST_SESSION_H

#include <onstack/onstack.h>

/* A session at `frequency` without a sink; a failure ends the program. */
onstack_session *start(uint32_t frequency, onstack_switch threads);
/* Stops, frees, returns the last statistics; accounting that does not close is a failure by this name. */
onstack_stats finish(onstack_session *session, const char *name);
/* Sampled part of `cpu_seconds`. */
double share_of(const onstack_stats *stats, double cpu_seconds);

#endif
