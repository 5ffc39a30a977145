/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/look.h"

#include "platform/loader.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define LOOK_TEST_ROUNDS 1000 /* of a millisecond, on a machine that has no processor for the thread */
#define LOOK_TEST_STACK 65536u

/* The thread that is looked at: it waits for `word`. */
typedef struct look_test {
  uint32_t word;
  uint32_t tid;
  uint64_t sp; /* near it */
} look_test;

static void *look_test_wait(void *data) {
  look_test *test = data;
  onstack_own_enter();
  test->sp = (uint64_t)(uintptr_t)&test;
  onstack_publish(&test->tid, (uint32_t)onstack_sys_gettid());
  while (onstack_observe(&test->word) == 0) onstack_sys_futex_wait(&test->word, 0, NULL);
  onstack_own_leave();
  return NULL;
}

static bool look_test_is_true(const look_test *test, const onstack_task_call *call) {
  return call->number == SYS_futex && call->arguments[0] == (uint64_t)(uintptr_t)&test->word &&
         call->sp - (test->sp - LOOK_TEST_STACK) < 2 * (uint64_t)LOOK_TEST_STACK;
}

/* It is on its way into the call, and may wait for a processor before that. */
static bool look_test_look(const look_test *test) {
  for (int round = 0; round < LOOK_TEST_ROUNDS; round++) {
    const uint32_t tid = onstack_observe(&test->tid);
    onstack_task_call call;
    const onstack_task_call_status status = tid ? onstack_task_blocked_in(tid, &call) : ONSTACK_TASK_RUNS;
    if (status == ONSTACK_TASK_BLOCKED && look_test_is_true(test, &call)) return true;
    if (status == ONSTACK_TASK_REFUSED) return false;
    onstack_sys_sleep(1000000);
  }
  return false;
}

static bool look_test_run(void) {
  look_test test = {0, 0, 0};
  pthread_t thread;
  const onstack_kernel_sigset every = onstack_own_mask();
  onstack_kernel_sigset old;
  const bool blocked = onstack_sys_sigprocmask(SIG_SETMASK, &every, &old) == 0; /* refused: there is nothing to put back */
  onstack_own_expect(1);
  onstack_loader_enter();
  const bool made = pthread_create(&thread, NULL, look_test_wait, &test) == 0;
  onstack_loader_leave();
  if (!made) onstack_own_expect(-1);
  if (blocked) onstack_sys_sigprocmask(SIG_SETMASK, &old, NULL);
  if (!made) return false;
  const bool works = look_test_look(&test);
  onstack_publish(&test.word, 1u);
  onstack_sys_futex_wake(&test.word);
  pthread_join(thread, NULL);
  /* It is in the list of threads for a moment yet, and none of ours any more. */
  for (int round = 0; round < LOOK_TEST_ROUNDS && !onstack_task_is_gone(test.tid); round++) sched_yield();
  return works;
}

bool onstack_look_works(void) {
  static bool works; /* a child of fork keeps it: there nothing waits */
  if (!works) works = look_test_run();
  return works;
}
