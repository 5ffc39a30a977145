/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_action.h"

#include "platform/atomics.h"
#include "platform/sys.h"
#include "sampler/signal/action.h"
#include "sampler/signal/own_threads.h"
#include "sampler/signal/owners.h"
#include "preload/first_ticks.h"
#include "preload/next.h"

typedef int (*host_sigaction)(int, const struct sigaction *, struct sigaction *);

/* As words: readers copy it while somebody writes. */
typedef union host_words {
  struct sigaction action;
  uint64_t words[sizeof(struct sigaction) / sizeof(uint64_t)];
} host_words;
_Static_assert(sizeof(host_words) == sizeof(struct sigaction), "whole words");

static struct {
  int32_t pid; /* 0: not taken over */
  uint32_t writing;
  onstack_seqlock lock; /* of `now` */
  host_words now;
} host;

#define HOST_PAUSE_NS 20000u /* between two looks at what another thread does */

/* Writers have every signal blocked, so a handler never waits for the thread that it interrupted; on another thread it
   waits for some stores. Asleep, as the writer may wait for this very processor under a lower priority. */
static struct sigaction host_read(void) {
  host_words copy;
  uint32_t begun;
  for (uint32_t round = 0;; round++) {
    if (round > 0) onstack_sys_sleep(HOST_PAUSE_NS);
    begun = onstack_seqlock_begin(&host.lock);
    for (size_t i = 0; i < ONSTACK_COUNT_OF(copy.words); i++) copy.words[i] = onstack_load_relaxed(&host.now.words[i]);
    if (onstack_seqlock_held(&host.lock, begun)) return copy.action;
  }
}

static bool host_handles(const struct sigaction *action) {
  return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static void host_publish(const struct sigaction *action) {
  const bool handles = host_handles(action);
  onstack_dekker_store(&onstack_own_stands_in.has_host, (uint32_t)handles);
  onstack_dekker_store(&onstack_own_stands_in.interrupts, (uint32_t)(handles && !(action->sa_flags & SA_RESTART)));
}

/* Returns what was there. */
static struct sigaction host_write(const struct sigaction *action) {
  const host_words wanted = {.action = *action};
  /* Asleep between two looks: who writes may need this processor, whatever this thread's policy. A raw call: it may be in a
     handler, with every signal blocked. */
  for (uint32_t free = 0; !onstack_cas(&host.writing, &free, 1u); free = 0) onstack_sys_sleep(HOST_PAUSE_NS);
  const struct sigaction before = host.now.action;
  onstack_seqlock_write_begin(&host.lock);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(wanted.words); i++) onstack_store_relaxed(&host.now.words[i], wanted.words[i]);
  host_publish(action);
  onstack_seqlock_write_end(&host.lock);
  onstack_publish(&host.writing, 0u);
  return before;
}

void onstack_host_action_change(const struct sigaction *action, struct sigaction *old) {
  onstack_kernel_sigset every = ~(onstack_kernel_sigset)0, mask;
  struct sigaction wanted;
  if (action) wanted = *action; /* before the lock: it may lie in memory that faults */
  if (!action) {
    if (old) *old = host_read();
    return;
  }
  if (host_handles(&wanted)) { /* it is not to be called on a thread of ours */
    onstack_dekker_store(&onstack_own_stands_in.has_host, 1u);
    onstack_own_wait_closed(SIGPROF);
  }
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &mask) == 0; /* refused: there is nothing to put back */
  const struct sigaction before = host_write(&wanted);
  onstack_action_follow_host(SIGPROF);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &mask, NULL);
  if (old) *old = before;
}

static void host_handler(int signal, siginfo_t *info, void *context) {
  if (onstack_first_ticks_take(info, context)) return;
  struct sigaction action = host_read();
  if (!host_handles(&action)) return;
  if (action.sa_flags & (int)SA_RESETHAND) {
    struct sigaction reset = action;
    reset.sa_handler = SIG_DFL;
    onstack_host_action_change(&reset, NULL);
  }
  const struct onstack_kernel_sigaction owner = {
      .handler = (uint64_t)(uintptr_t)action.sa_sigaction,
      .flags = (uint64_t)(uint32_t)action.sa_flags,
      .mask = *(const onstack_kernel_sigset *)(const void *)&action.sa_mask, /* the first 64 bits, in every libc */
  };
  onstack_action_call(&owner, signal, info, context);
}

void onstack_host_action_begin(bool on_stack) {
  host_sigaction next = (host_sigaction)onstack_next(ONSTACK_NEXT_SIGACTION);
  struct sigaction ours = {.sa_sigaction = host_handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (on_stack) ours.sa_flags |= SA_ONSTACK;
  sigfillset(&ours.sa_mask); /* the host's own is set for its handler alone */
  if (!next || next(SIGPROF, &ours, &host.now.action) != 0) return;
  onstack_own_stands_in.handler = (uint64_t)(uintptr_t)host_handler;
  host_publish(&host.now.action);
  onstack_action_follow_host(SIGPROF);
  host.pid = onstack_sys_getpid();
}

void onstack_host_action_forked(void) {
  if (host.pid == 0) return;
  onstack_seqlock_after_fork(
      &host.lock); /* another thread of the parent's was writing: its change is lost, or was made in part */
  host.writing = 0;
  host.pid = onstack_sys_getpid();
}

bool onstack_host_action_is_ours(int signal) {
  return signal == SIGPROF && host.pid != 0 && host.pid == onstack_sys_getpid();
}

bool onstack_host_action_has_handler(void) { return onstack_dekker_load(&onstack_own_stands_in.has_host); }
