/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an OpenTelemetry library in this process has published about it (OTEP 4719, version 2): a mapping named OTEL_CTX whose
 * head leads to an encoded ProcessContext. Another thread may change or unmap it at any instant, so all is copied by the
 * kernel, and the head's time of publication is compared before and after.
 */
#ifndef ONSTACK_PROFILE_OTLP_PROCESS_CONTEXT_H
#define ONSTACK_PROFILE_OTLP_PROCESS_CONTEXT_H

#include "platform/defs.h"

/* Larger ones are left alone. */
#define ONSTACK_PROCESS_CONTEXT_BYTES ((uint32_t)64 * 1024)

/* The encoded ProcessContext, which the caller frees; NULL: there is none, or it cannot be read. Ordinary threads. */
ONSTACK_INTERNAL uint8_t *onstack_process_context_copy(size_t *length);

#endif
