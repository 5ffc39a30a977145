/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The only place with memory orders. Each name says what it is for; both ends of a pairing are named at the use.
 *
 *   relaxed    a counter, or a value whose reader needs nothing else to be visible;
 *   publish / observe   release store and acquire load: what was written before the publish is seen after the observe;
 *   dekker     sequentially consistent: two sides each write their own flag and then read the other's
 *              (handler: busy, then state; stop: state, then busy), and at least one of them sees the other.
 *
 * All operations are lock-free on x86_64 and aarch64, so they may be used in the signal handler. They are compiler
 * builtins on plain objects rather than _Atomic types, so that the structures can be shared with any C dialect.
 */
#ifndef ONSTACK_PLATFORM_ATOMICS_H
#define ONSTACK_PLATFORM_ATOMICS_H

#include "platform/defs.h"

#define onstack_load_relaxed(pointer) __atomic_load_n((pointer), __ATOMIC_RELAXED)
#define onstack_store_relaxed(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELAXED)
#define onstack_add_relaxed(pointer, value) __atomic_fetch_add((pointer), (value), __ATOMIC_RELAXED)
#define onstack_sub_relaxed(pointer, value) __atomic_fetch_sub((pointer), (value), __ATOMIC_RELAXED)

#define onstack_observe(pointer) __atomic_load_n((pointer), __ATOMIC_ACQUIRE)
#define onstack_publish(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_RELEASE)

#define onstack_dekker_load(pointer) __atomic_load_n((pointer), __ATOMIC_SEQ_CST)
#define onstack_dekker_store(pointer, value) __atomic_store_n((pointer), (value), __ATOMIC_SEQ_CST)
#define onstack_dekker_add(pointer, value) __atomic_fetch_add((pointer), (value), __ATOMIC_SEQ_CST)
#define onstack_dekker_sub(pointer, value) __atomic_fetch_sub((pointer), (value), __ATOMIC_SEQ_CST)
#define onstack_dekker_cas(pointer, expected, value)                                                                        \
  __atomic_compare_exchange_n((pointer), (expected), (value), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Reference counts: whoever lets go last sees all that the others did with the object. */
#define onstack_retain(pointer) __atomic_fetch_add((pointer), 1, __ATOMIC_RELAXED)
#define onstack_release_was_last(pointer) (__atomic_fetch_sub((pointer), 1, __ATOMIC_ACQ_REL) == 1)

#define onstack_exchange(pointer, value) __atomic_exchange_n((pointer), (value), __ATOMIC_ACQ_REL)

/* Strong compare-and-swap; `expected` points to the value and receives what was found. */
#define onstack_cas(pointer, expected, value)                                                                               \
  __atomic_compare_exchange_n((pointer), (expected), (value), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Full fence: a store before it is visible before a load behind it. */
#define onstack_fence_dekker() __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* The compiler moves nothing across: for a handler on the same thread, which sees the processor's own order anyway. */
#define onstack_fence_signal() __atomic_signal_fence(__ATOMIC_SEQ_CST)
/* Orders the reads of a sequence lock: data reads stay before the second read of the sequence. */
#define onstack_fence_observe() __atomic_thread_fence(__ATOMIC_ACQUIRE)
/* Orders the writes of a sequence lock: the odd sequence is visible before the data. */
#define onstack_fence_publish() __atomic_thread_fence(__ATOMIC_RELEASE)

/*
 * A sequence lock: one writer at a time (by a lock of its own), readers that never wait, in the signal handler too. A
 * reader copies what the lock guards and then asks whether the copy belongs together; if not it goes without.
 *
 * What is guarded is read and written by relaxed atomics only: both sides do it at the same time.
 *
 *   writer                                   reader
 *   W1  sequence = odd       relaxed         R1  begun = sequence     acquire
 *   W2  fence                release         R2  copy the data        relaxed
 *   W3  write the data       relaxed         R3  fence                acquire
 *   W4  sequence = next even release         R4  sequence == begun    relaxed
 *
 * Why a copy that is found good is whole (C11, 5.1.2.4 and 7.17.4). Let `begun` be even, and let W be the last change
 * that ended with it.
 *   - Nothing is older than W: R1 read what W4 of W wrote, or a later sequence, which it did not; so all of W's W3
 *     happened before R2, and R2 reads W's values or later ones.
 *   - Nothing is newer than W: had R2 read a word from the W3 of a later change, that change's W2 would synchronize with R3
 *     (fence to fence, by that word). Its W1 would then happen before R4, and R4 would read its odd number or a later
 *     one, not `begun`.
 * The number comes round after 2^31 changes; no reader is inside for so long.
 */

#define ONSTACK_SEQLOCK_INLINE static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER

typedef struct onstack_seqlock {
  uint32_t sequence; /* odd while the data are written; 0 is a lock that nobody has written under */
} onstack_seqlock;

/* R1. Signal-safe. */
ONSTACK_SEQLOCK_INLINE uint32_t onstack_seqlock_begin(const onstack_seqlock *lock) {
  return onstack_observe(&lock->sequence);
}

/* Whether the data were being written when the reader began: it may spare itself the copy. Signal-safe. */
ONSTACK_SEQLOCK_INLINE bool onstack_seqlock_is_written(uint32_t begun) { return begun & 1; }

/* R3 and R4: whether the copy belongs together. Signal-safe. */
ONSTACK_SEQLOCK_INLINE bool onstack_seqlock_held(const onstack_seqlock *lock, uint32_t begun) {
  onstack_fence_observe();
  return !onstack_seqlock_is_written(begun) && onstack_load_relaxed(&lock->sequence) == begun;
}

/* W1 and W2. Returns the number that the change ends with. */
ONSTACK_SEQLOCK_INLINE uint32_t onstack_seqlock_write_begin(onstack_seqlock *lock) {
  const uint32_t odd = onstack_load_relaxed(&lock->sequence) + 1;
  onstack_store_relaxed(&lock->sequence, odd);
  onstack_fence_publish();
  return odd + 1;
}

/* W4. */
ONSTACK_SEQLOCK_INLINE void onstack_seqlock_write_end(onstack_seqlock *lock) {
  onstack_publish(&lock->sequence, onstack_load_relaxed(&lock->sequence) + 1);
}

/* In the child of a fork whose parent's writer is not there: ends its change, whose data are half written. False: there was
   none. */
ONSTACK_SEQLOCK_INLINE bool onstack_seqlock_after_fork(onstack_seqlock *lock) {
  if (!onstack_seqlock_is_written(onstack_load_relaxed(&lock->sequence))) return false;
  onstack_seqlock_write_end(lock);
  return true;
}

#endif
