/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loader's locks, and what a fork makes of them. glibc takes one for dl_iterate_phdr, others for dlopen, dladdr and for
 * the thread-local storage of a new thread, and never gives them back in the child of a fork whose parent had a thread inside
 * at that instant: the child's next dlopen, a name service's as a rule, would wait for ever, in a program that has no threads
 * but ours. So threads of ours are counted while they are inside, fork waits until none is, and none goes in while a thread
 * forks.
 *
 * Both wait for a moment only: who forks inside a constructor has the loader's lock that ours wait for. A child that had to be
 * made all the same does not ask the loader, and lives with what its parent knew. (A thread of the host inside dlopen has the
 * same effect, and cannot be seen from here.)
 */
#ifndef ONSTACK_PLATFORM_LOADER_H
#define ONSTACK_PLATFORM_LOADER_H

#include "platform/defs.h"

/* How many objects were loaded and unloaded so far, in all namespaces: the same counts, the same objects. */
typedef struct onstack_loader_counts {
  uint64_t adds, subs;
} onstack_loader_counts;

#ifdef __linux__
#include "platform/object_headers.h"

#include <link.h>

/* Around each call of ours that takes one of its locks. Ordinary threads. */
ONSTACK_INTERNAL void onstack_loader_enter(void);
ONSTACK_INTERNAL void onstack_loader_leave(void);

/* Before fork, and in the parent when it is over. They may nest. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_loader_before_fork(void);
ONSTACK_INTERNAL void onstack_loader_forked(void);

/* In the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_loader_after_fork(void);

/* As dl_iterate_phdr, with copied headers; false, and no call, where the loader cannot be asked. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);

/* The same without a copy: a visit that needs the headers copies them. `number`: platform/load_numbers.h; 0: not known. */
ONSTACK_INTERNAL bool onstack_loader_each_load(int (*visit)(const struct dl_phdr_info *info, uint64_t number, void *data),
                                               void *data);

/* In a visit: every object knows them. */
static inline __attribute__((unused)) onstack_loader_counts onstack_loader_counts_in(const struct dl_phdr_info *info) {
  return (onstack_loader_counts){info->dlpi_adds, info->dlpi_subs};
}
#endif

/* Reads the counts; false, and *counts as it was, where the loader cannot be asked. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_loader_count(onstack_loader_counts *counts);

static inline __attribute__((unused)) bool onstack_loader_same(const onstack_loader_counts *a,
                                                               const onstack_loader_counts *b) {
  return a->adds == b->adds && a->subs == b->subs;
}

#endif
