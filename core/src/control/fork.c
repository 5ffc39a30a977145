/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/fork.h"

#include "base/atomics.h"
#include "control/action.h"
#include "control/slots.h"

#include <pthread.h>

/*
 * Masks of the threads that are inside fork() now. A table rather than thread-local storage, whose first use in a
 * loaded library may allocate. The key is pthread_self(), which is the same in parent and child (the thread id is not).
 * More than this many forks at the same instant leave their signal unblocked: correct, only exposed to the restarts
 * that fork_before describes.
 */
#define FORK_THREADS 64

typedef struct fork_entry {
  uintptr_t thread; /* 0: free */
  uint64_t mask;
} fork_entry;

static fork_entry fork_entries[FORK_THREADS];

/*
 * Blocks the profiling signals in the forking thread: a tick interrupts clone() of a large process, which the kernel
 * then restarts from the beginning, for ever if the ticks come faster than the page tables are copied.
 */
static void fork_before(void) {
  uintptr_t self = (uintptr_t)pthread_self();
  for (uint32_t i = 0; i < FORK_THREADS; i++) {
    uintptr_t expected = 0;
    if (!onstack_cas(&fork_entries[i].thread, &expected, self)) continue;
    onstack_action_block(&fork_entries[i].mask);
    return;
  }
}

static fork_entry *fork_find(void) {
  uintptr_t self = (uintptr_t)pthread_self();
  for (uint32_t i = 0; i < FORK_THREADS; i++)
    if (onstack_observe(&fork_entries[i].thread) == self) return &fork_entries[i];
  return NULL;
}

static void fork_parent(void) {
  fork_entry *entry = fork_find();
  if (!entry) return;
  uint64_t mask = entry->mask;
  onstack_publish(&entry->thread, (uintptr_t)0);
  onstack_action_unblock(mask);
}

/* Only async-signal-safe work: this is the child of a process with threads. */
static void fork_child(void) {
  fork_entry *entry = fork_find();
  uint64_t mask = entry ? entry->mask : 0;
  for (uint32_t i = 0; i < FORK_THREADS; i++) fork_entries[i].thread = 0; /* the other forking threads are not here */
  onstack_action_after_fork();
  onstack_slots_after_fork();
  if (entry) onstack_action_unblock(mask);
}

int onstack_fork_prepare(void) {
  static bool registered; /* under the control lock */
  if (registered) return 0;
  int result = pthread_atfork(fork_before, fork_parent, fork_child);
  if (result == 0) registered = true;
  return -result;
}
