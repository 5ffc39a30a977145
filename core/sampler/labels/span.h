/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The span that an OpenTelemetry library has published for the calling thread (OTEP 4947): a thread-local pointer
 * otel_thread_ctx_v1 to a record, in an object of the host's. Read in the handler.
 *
 * Why that is safe: the thread itself, and nobody else, writes pointer and record, in the order that a handler on it needs, as
 * the paper demands of it; and it stands still in our handler. Nothing is taken on trust all the same: the way to the pointer
 * leads through the loader's table of thread-local blocks (DTV), which a raw thread does not have and which the thread may
 * be exchanging at this moment. So all is read by the kernel's copy. What it finds there in the worst case has no
 * valid record behind it.
 */
#ifndef ONSTACK_SAMPLER_LABELS_SPAN_H
#define ONSTACK_SAMPLER_LABELS_SPAN_H

#include "platform/atomics.h"
#include "platform/defs.h"

/* Where the pointer is: in one word, since handlers read it while an ordinary thread sets it. 0: nowhere. */
typedef uint64_t onstack_span_place;

#define ONSTACK_SPAN_OFFSET_BITS 40
#define ONSTACK_SPAN_MODULE_BITS 20

/* How a libc lays out the DTV; by number in the highest bits of a place, from 1 on. */
typedef struct onstack_span_layout {
  int32_t dtv;    /* where a thread has its pointer to it, from the thread pointer on */
  int32_t count;  /* where it has the number of its entries, in bytes from it */
  uint32_t entry; /* the bytes of one; entry N begins N times as many from it on, with the address of the block */
} onstack_span_layout;
#define ONSTACK_SPAN_LAYOUTS 2u

ONSTACK_INTERNAL_DATA onstack_span_place onstack_span_of_threads;

/* "trace_id", 32 digits, "span_id", 16 digits, each with its NUL. */
#define ONSTACK_SPAN_BYTES 67u

/* Writes them; 0: the thread is in no span, or has nothing to say so. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_span_copy(char *out);

/* The address of the calling thread's pointer by a place; 0: it has none. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_span_pointer(onstack_span_place place);

#endif
