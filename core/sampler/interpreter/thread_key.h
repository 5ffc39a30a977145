/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where libc keeps a thread's value of a pthread key: found by trying, for a handler that reads it by the kernel's copy. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_THREAD_KEY_H
#define ONSTACK_SAMPLER_INTERPRETER_THREAD_KEY_H

#include "platform/defs.h"

typedef struct onstack_thread_key {
  int64_t offset; /* from the thread pointer: to the value, or to the address of an array of values */
  uint64_t index; /* in that array */
  bool indirect;
} onstack_thread_key;

/* False: libc keeps that key elsewhere (glibc beyond the 32nd). Ordinary threads; uses some keys for a moment. */
ONSTACK_INTERNAL bool onstack_thread_key_find(uint32_t key, onstack_thread_key *place);

#endif
