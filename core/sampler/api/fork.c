/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/session.h"

#include "platform/atomics.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/signal/action.h"
#include "sampler/threads/task.h"
#include "platform/process.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/walk.h"

#include <pthread.h>

/*
 * What the threads that are inside fork() now have left: the mask of before, and their id, which is another one in the
 * child. A table rather than thread-local storage, whose first use in a loaded library may allocate. The key is
 * pthread_self(), which is the same in parent and child. More than this many forks at the same instant leave their
 * signal unblocked: correct, only exposed to the restarts that fork_before describes; and their children do not follow.
 *
 * A signal handler may interrupt fork() and fork as well. Then a thread has several entries, and what ends first is the
 * innermost. That holds in the child of the inner one too, which goes on in the middle of the outer.
 */
#define FORK_THREADS 64

typedef struct fork_entry {
  uintptr_t thread; /* 0: free */
  uint64_t mask;
  int32_t tid;
  uint32_t depth; /* forks of this thread that this one interrupted, and 1 */
} fork_entry;

static fork_entry fork_entries[FORK_THREADS];
static void (*fork_follow)(void); /* NULL: no session of this process was ever to be followed */
static void (*fork_labels)(void); /* NULL: no thread had labels */
static void (*fork_interpreters)(void);

/* In a word that tells each child with a memory of its own; a vfork child, which shares ours, is none. NULL: only fork() is
   noticed. Published once, known already: starts on other threads look at it without the lock. */
#define FORK_FRESH 0u /* a child that nobody has put in order yet */
#define FORK_REPAIRING 1u
#define FORK_KNOWN 2u

static uint32_t *fork_mark;

static void fork_make_mark(void) {
  uint32_t *mark = onstack_wiped_word();
  if (!mark) return;
  onstack_store_relaxed(mark, FORK_KNOWN);
  onstack_publish(&fork_mark, mark);
}

/* The innermost fork that this thread is in; NULL: none that is known. */
static fork_entry *fork_find(void) {
  uintptr_t self = (uintptr_t)pthread_self();
  fork_entry *found = NULL;
  for (uint32_t i = 0; i < FORK_THREADS; i++) {
    fork_entry *entry = &fork_entries[i];
    if (onstack_observe(&entry->thread) == self && (!found || entry->depth > found->depth)) found = entry;
  }
  return found;
}

/*
 * Blocks the profiling signals in the forking thread: a tick interrupts clone() of a large process, which the kernel
 * then restarts from the beginning, for ever if the ticks come faster than the page tables are copied.
 */
static void fork_before(void) {
  onstack_loader_before_fork(); /* with the signal open yet: it may take a moment */
  uintptr_t self = (uintptr_t)pthread_self();
  const fork_entry *outer = fork_find();
  const uint32_t depth = outer ? outer->depth + 1 : 1;
  for (uint32_t i = 0; i < FORK_THREADS; i++) {
    uintptr_t expected = 0;
    if (!onstack_cas(&fork_entries[i].thread, &expected, self)) continue;
    fork_entries[i].depth = depth;
    fork_entries[i].tid = onstack_sys_gettid();
    onstack_action_block(&fork_entries[i].mask);
    return;
  }
}

static void fork_parent(void) {
  onstack_loader_forked();
  fork_entry *entry = fork_find();
  if (!entry) return;
  uint64_t mask = entry->mask;
  onstack_publish(&entry->thread, (uintptr_t)0);
  onstack_action_unblock(mask);
}

/* Only async-signal-safe work: this is the child of a process with threads. */
static void fork_clean(void) {
  const uintptr_t self = (uintptr_t)pthread_self();
  for (uint32_t i = 0; i < FORK_THREADS; i++) {
    if (fork_entries[i].thread != self) fork_entries[i].thread = 0; /* the other forking threads are not here */
    fork_entries[i].tid = onstack_sys_gettid();
  }
  onstack_action_after_fork();
  onstack_slots_after_fork();
  onstack_traceback_after_fork();
  if (fork_labels) fork_labels();
  if (fork_interpreters) fork_interpreters();
  uint32_t *mark = onstack_observe(&fork_mark);
  if (mark) onstack_publish(mark, FORK_KNOWN);
}

static void fork_child(void) {
  ONSTACK_UNCANCELLED;
  fork_entry *entry = fork_find();
  uint64_t mask = entry ? entry->mask : 0;
  /* A sink that forks is in the middle of our own work, which the child must not go on with. */
  bool follows = entry && !onstack_slots_in_sink(entry->tid);
  if (entry) entry->thread = 0;
  fork_clean();
  if (follows && fork_follow) fork_follow();
  if (entry) onstack_action_unblock(mask);
}

void onstack_fork_repair(void) {
  uint32_t expected = FORK_FRESH, *mark = onstack_observe(&fork_mark);
  if (!mark || onstack_observe(mark) == FORK_KNOWN) return;
  if (onstack_cas(mark, &expected, FORK_REPAIRING))
    fork_clean();
  else
    for (uint32_t round = 0; onstack_observe(mark) != FORK_KNOWN; round++) onstack_moment(round);
}

void onstack_fork_set_follow(void (*follow)(void)) { onstack_publish(&fork_follow, follow); }

void onstack_fork_set_labels(void (*after_fork)(void)) { onstack_publish(&fork_labels, after_fork); }

void onstack_fork_set_interpreters(void (*after_fork)(void)) { onstack_publish(&fork_interpreters, after_fork); }

int onstack_fork_prepare(void) {
  static bool registered; /* under the control lock */
  if (registered) return 0;
  if (!onstack_load_relaxed(&fork_mark)) fork_make_mark();
  int result = pthread_atfork(fork_before, fork_parent, fork_child);
  if (result == 0) registered = true;
  return -result;
}
