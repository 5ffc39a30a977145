/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For programs that did not ask for a session: what lies in the same library may call it. */
#ifndef ONSTACK_SAMPLER_API_START_H
#define ONSTACK_SAMPLER_API_START_H

#include "sampler/unwind/module_statistics.h"
#include "sampler/ring/kept.h"
#include "sampler/unwind/unwinder.h"
#include "onstack/onstack.h"

/*
 * As onstack_session_start, but ticks begin before unwind rules are derived, which takes some 10 ms a MiB of .eh_frame:
 * the drain thread derives them while the program runs, and finds what stacks of the first moments need
 * (sampler/drain/deliver.h).
 */
ONSTACK_INTERNAL int onstack_session_start_at_once(const onstack_options *options, onstack_session **out);

/* How a session's ticks are walked, for ticks that are not its own. */
typedef struct onstack_session_walk {
  const onstack_unwinder_ops *unwinder;
  const onstack_reader *reader;
  bool copy_works;
  uint32_t stack_bytes; /* of the signal stack that such a tick needs */
  const uint32_t *room; /* that its samples have; more than `least` */
  uint32_t least;       /* where an interpreter has been met, whose frames such a tick would lack */
  uint32_t weight_max;  /* of one tick */
  uint64_t period_ns;
} onstack_session_walk;

/* The same in the child of a fork, where the session is not. Any thread. */
ONSTACK_INTERNAL onstack_session_walk onstack_session_walk_of(const onstack_session *session);

/* The same where a session is yet to begin, for ticks whose stacks are kept and walked later: no unwinder. An error where they
   could not be, or the source is not CPU time. Start only. */
ONSTACK_INTERNAL int onstack_session_walk_expected(const onstack_options *options, onstack_session_walk *walk);

/* Walks such a tick's stack further where it was kept (`kept`, else NULL), with a session that runs. What a stack lacks that
   was not kept is derived, for the next one. Start-stop only. */
ONSTACK_INTERNAL void onstack_session_walk_again(const onstack_session *session, onstack_kept *kept, onstack_walked *stack);

/* Of the samples that the session's source makes. Any thread. */
ONSTACK_INTERNAL onstack_kind onstack_session_kind(const onstack_session *session);

#endif
