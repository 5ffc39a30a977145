/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Several copies of this library in one process: a Rust crate's, a Go package's, a preload's. Each installs a handler of
 * its own, and a tick of any of them enters whichever stands on top. That one offers it to the others directly, and what
 * a copy forwards to is never another copy: chains from handler to handler become circles after enough starts and stops
 * in crossing orders.
 *
 * A copy finds another by the mark before the handler that it meets as the installed action (entry_handler.c), and from
 * then on knows all that the other knows. A copy pins itself before its first start, so what is here is never unmapped.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_COPY_H
#define ONSTACK_SAMPLER_SIGNAL_COPY_H

#include "sampler/signal/owners.h"

#include <signal.h>

#define ONSTACK_COPIES 8u /* others that one copy knows */

/* The mark's last byte is the version of the structures that copies read from each other. Copies of different versions refuse
   each other, so every change of these structures raises the version, also a new member at the end. */
#define ONSTACK_COPY_MARK "onstack-handler4"
#define ONSTACK_COPY_MARK_BYTES 16u

_Static_assert(sizeof(onstack_action) == 1160, "another layout needs another version in ONSTACK_COPY_MARK");

/*
 * What install.c installs, for every signal and session of this copy: a jump to the handler (entry_handler.c), with a
 * mark right before it. There are ONSTACK_TRAMPOLINES of them (owners.h says why), this far apart; declared is the first.
 */
#define ONSTACK_TRAMPOLINE_BYTES 64u
extern __attribute__((visibility("hidden"))) void onstack_handler_trampoline(int signal, siginfo_t *info, void *context);

/* What lies before each, read by other copies. */
typedef struct onstack_handler_head {
  int64_t copy; /* that copy's onstack_copy, as the distance from here */
  uint64_t number;
  uint64_t mark[2];
} onstack_handler_head;

typedef struct onstack_copy {
  uint32_t bytes;
  uint32_t action_bytes;
  onstack_action *actions; /* one for each signal, `action_bytes` apart */
  /* If the signal is a tick of this copy: does with it what its handler would, and returns true. Signal-safe. */
  bool (*take)(int signal, siginfo_t *info, void *context);
  /* The first of its trampolines, ONSTACK_TRAMPOLINE_BYTES apart. */
  void (*trampoline)(int signal, siginfo_t *info, void *context);
  uint32_t lock; /* of the control side, see onstack_copies_lock */
  uint32_t reserved;
  struct onstack_copy *others[ONSTACK_COPIES]; /* up to the first NULL; filled by whoever learns of one, never emptied */
} onstack_copy;

ONSTACK_INTERNAL_DATA onstack_copy onstack_copy_self;

/* What a copy has of one signal. `copy` is any copy, this one too. */
static inline ONSTACK_HANDLER onstack_action *onstack_copy_action(const onstack_copy *copy, int signal) {
  return (onstack_action *)(uintptr_t)((uintptr_t)copy->actions + (uintptr_t)copy->action_bytes * (uintptr_t)signal);
}

/* The others that a copy knows, one after the other; NULL: no more. Pairs with copies_add. */
static inline ONSTACK_HANDLER onstack_copy *onstack_copy_other(const onstack_copy *of, uint32_t i) {
  return i < ONSTACK_COPIES ? onstack_observe(&of->others[i]) : NULL;
}

/* The trampoline of that copy at that address, or ONSTACK_TRAMPOLINES. */
static inline ONSTACK_HANDLER uint32_t onstack_trampoline_at(const onstack_copy *copy, uint64_t handler) {
  uint64_t distance = handler - (uint64_t)(uintptr_t)copy->trampoline;
  if (distance % ONSTACK_TRAMPOLINE_BYTES != 0) return ONSTACK_TRAMPOLINES;
  distance /= ONSTACK_TRAMPOLINE_BYTES;
  return distance < ONSTACK_TRAMPOLINES ? (uint32_t)distance : ONSTACK_TRAMPOLINES;
}

/* Does a session of that copy use the signal? Dekker: with a stop of that copy, see sampler/signal/action.c. */
static inline ONSTACK_HANDLER bool onstack_copy_runs(const onstack_copy *copy, int signal) {
  return onstack_dekker_load(&onstack_copy_action(copy, signal)->running) != 0;
}

/* Finds other copies of the library in this process; what they are to each other stands in sampler/signal/copy.h. Ordinary
   threads, under the control lock of this copy; another copy may do the same at the same time. */

/*
 * One lock for all copies that know each other: that of the one at the lowest address. What is read of the action and of
 * another copy, and what is written because of it, belongs inside. No holder waits for anything else meanwhile. Without
 * `wait`: NULL if another copy has it.
 */
ONSTACK_INTERNAL onstack_copy *onstack_copies_lock(bool wait);
ONSTACK_INTERNAL void onstack_copies_unlock(onstack_copy *locked);
/* The copies have become more, and another lock is theirs: unlock, and begin anew. */
ONSTACK_INTERNAL bool onstack_copies_outgrew(const onstack_copy *locked);
/* In the child of a fork: whoever had our lock is not here. */
ONSTACK_INTERNAL void onstack_copies_after_fork(void);

/*
 * Whose handler is that? 0 and NULL: no copy's. 0 and a copy, which knows us from now on as we know it, and so do all
 * copies that either knew. ONSTACK_E_VERSION: a copy that cannot be dealt with. -ENOMEM: one too many.
 */
ONSTACK_INTERNAL int onstack_copies_meet(uint64_t handler, onstack_copy **copy);

/* A known copy that has sessions on the signal, or NULL. */
ONSTACK_INTERNAL const onstack_copy *onstack_copies_running(int signal);

#endif
