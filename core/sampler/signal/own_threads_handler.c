/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/signal/own_threads.h"

#include "platform/atomics.h"
#include "platform/sys.h"
#include "sampler/signal/owners.h"

#include <signal.h>
#include <time.h>

ONSTACK_INTERNAL_DEFINE onstack_own_thread onstack_own_threads[ONSTACK_OWN_THREADS];
ONSTACK_INTERNAL_DEFINE onstack_own_stand_in onstack_own_stands_in;
ONSTACK_INTERNAL_DEFINE uint64_t onstack_own_cpu_ns;

static int32_t own_expected; /* threads that have not entered yet */
static uint64_t own_left_ns; /* when the last one left */

static uint64_t own_ns(clockid_t clock) {
  struct onstack_timespec now = {0, 0};
  onstack_sys_call2(SYS_clock_gettime, clock, (long)&now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

void onstack_own_enter(void) {
  int32_t self = onstack_sys_gettid();
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) {
    int32_t expected = 0;
    if (!onstack_cas(&onstack_own_threads[i].tid, &expected, self)) continue;
    onstack_own_threads[i].cpu_ns = own_ns(CLOCK_THREAD_CPUTIME_ID);
    onstack_own_expect(-1);
    return;
  }
}

void onstack_own_expect(int32_t more) { onstack_add_relaxed(&own_expected, more); }

static ONSTACK_HANDLER onstack_own_thread *own_find(int32_t tid) {
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++)
    if (onstack_load_relaxed(&onstack_own_threads[i].tid) == tid) return &onstack_own_threads[i];
  return NULL;
}

void onstack_own_account(void) {
  onstack_own_thread *own = own_find(onstack_sys_gettid());
  if (!own) return;
  const uint64_t now = own_ns(CLOCK_THREAD_CPUTIME_ID);
  onstack_add_relaxed(&onstack_own_cpu_ns, now - own->cpu_ns);
  own->cpu_ns = now;
}

void onstack_own_leave(void) {
  onstack_own_thread *own = own_find(onstack_sys_gettid());
  onstack_own_account();
  onstack_store_relaxed(&own_left_ns, own_ns(CLOCK_MONOTONIC));
  if (own) onstack_publish(&own->tid, 0); /* after the time: who misses it in the count sees when it left */
}

ONSTACK_HANDLER bool onstack_own_is(int32_t tid) { return own_find(tid); }

uint32_t onstack_own_count(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) count += onstack_observe(&onstack_own_threads[i].tid) != 0;
  return count;
}

uint32_t onstack_own_count_expected(void) { return onstack_own_count() + (uint32_t)onstack_load_relaxed(&own_expected); }

bool onstack_own_changed_since(uint64_t ns) {
  return onstack_load_relaxed(&own_expected) != 0 || onstack_load_relaxed(&own_left_ns) > ns;
}

static void own_open(int32_t signal, bool (*is_ours)(int32_t signal)) {
  onstack_own_thread *own = own_find(onstack_sys_gettid());
  if (!own || own->open != 0) return;
  /* Before the look: who takes the handler away says so first and then looks here. */
  onstack_dekker_store(&own->open, signal);
  if (!is_ours(signal) || onstack_dekker_load(&onstack_own_stands_in.has_host)) {
    onstack_dekker_store(&own->open, 0);
    return;
  }
  onstack_kernel_sigset set = ONSTACK_SIGBIT(signal);
  onstack_sys_sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static bool own_is_undisputed(int32_t signal) { return onstack_dekker_load(&onstack_actions[signal].undisputed) != 0; }

static bool own_is_stood_in(int32_t signal) {
  struct onstack_kernel_sigaction now;
  return onstack_own_stands_in.handler != 0 && onstack_sys_sigaction(signal, NULL, &now) == 0 &&
         now.handler == onstack_own_stands_in.handler;
}

void onstack_own_open(int32_t signal) { own_open(signal, own_is_undisputed); }

void onstack_own_open_stood_in(int32_t signal) { own_open(signal, own_is_stood_in); }

void onstack_own_close(void) {
  onstack_own_thread *own = own_find(onstack_sys_gettid());
  if (!own || onstack_load_relaxed(&own->open) == 0) return;
  onstack_kernel_sigset set = ONSTACK_SIGBIT(own->open);
  onstack_sys_sigprocmask(SIG_BLOCK, &set, NULL);
  onstack_dekker_store(&own->open, 0);
}

void onstack_own_after_fork(void) {
  onstack_store_relaxed(&own_expected, 0);
  onstack_store_relaxed(&onstack_own_cpu_ns, (uint64_t)0); /* the process's clock begins at 0 as well */
  for (uint32_t i = 0; i < ONSTACK_OWN_THREADS; i++) onstack_own_threads[i] = (onstack_own_thread){0, 0, 0};
}
