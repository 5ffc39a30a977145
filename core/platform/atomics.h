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

#endif
