/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The labels of the interrupted goroutine (runtime/pprof.Do), copied in the handler.
 *
 * Why that is safe: g.labels is written by its own goroutine only (and by the one that starts it, before it runs), and
 * that goroutine stands still in our handler. What it points to is never changed after it was made
 * (runtime/pprof/label.go), does not move, and cannot be freed while g.labels holds it. The runtime's own handler relies
 * on the same. A drain that came later could not: the collector may have run in between.
 *
 * Where things lie is not promised by Go: the host finds the offset of g.labels and checks what is read with it, by a label of
 * its own (thread_labels.c). Without that nothing is read. And all is read by the kernel's copy, so that a
 * wrong layout, or a system without that copy, gives no labels rather than a fault.
 */
#ifndef ONSTACK_SAMPLER_LABELS_GO_LABELS_H
#define ONSTACK_SAMPLER_LABELS_GO_LABELS_H

#include "sampler/unwind/code_map.h"

#define ONSTACK_GO_LABELS_CUT ((uint32_t)1 << 31) /* in the result: some had no room, or no place in the format */

/*
 * Writes "key\0value\0" for each label of the calling thread's goroutine, whole pairs only, at most `bytes` bytes.
 * Returns the bytes written, perhaps with ONSTACK_GO_LABELS_CUT; 0 where there is no goroutine or no known layout.
 * Signal-safe.
 */
ONSTACK_INTERNAL uint32_t onstack_go_labels_copy(const onstack_go_runtime *go, uint8_t *out, uint32_t bytes);

/* The same with the offset of g.labels given. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_go_labels_copy_at(const onstack_go_runtime *go, uint32_t g_labels, uint8_t *out,
                                                    uint32_t bytes);

/* The calling thread's goroutine; 0: it runs none. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_go_current(const onstack_go_runtime *go);

#endif
