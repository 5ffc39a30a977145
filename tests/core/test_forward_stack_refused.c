/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A kernel that refuses what is left of an alternate stack, as one does for a process that may use AMX: its signal frames
 * have 11 KiB (arch/x86/kernel/signal.c, sigaltstack_size_valid). Its result is put in the place of the system call.
 */
#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int refusals;

static inline long refusing_call2(long number, long a, long b) {
  const stack_t *wanted = (const stack_t *)a;
  if (number == SYS_sigaltstack && wanted && !(wanted->ss_flags & SS_DISABLE) && wanted->ss_size < 32768) {
    refusals++;
    return -ENOMEM;
  }
  return onstack_sys_call2(number, a, b);
}

#define onstack_sys_call2 refusing_call2
#include "sampler/signal/forward_handler.c"
#undef onstack_sys_call2

TestSuite(forward_stack_refused, .init = t_setup);

static volatile int calls, nested_calls, nested_on_alternate;
static uint8_t *alternate;

static void owner(int signal) {
  (void)signal;
  calls++;
  raise(SIGUSR1);
}

/* Where the frames of the handler lie that the owner returns to, if it began at the top of the alternate stack. */
static void nested(int signal) {
  volatile uint8_t room[16384];
  memset((void *)room, signal, sizeof(room));
  nested_calls++;
  nested_on_alternate += (uintptr_t)room - (uintptr_t)alternate < 32768;
}

Test(forward_stack_refused, a_signal_meanwhile_spares_our_frames) {
  alternate = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack = {.ss_sp = alternate, .ss_size = 32768}, after;
  cr_assert_eq(sigaltstack(&stack, NULL), 0);
  struct sigaction plain = {.sa_handler = owner}, another = {.sa_handler = nested, .sa_flags = SA_ONSTACK};
  cr_assert_eq(sigaction(SIGPROF, &plain, NULL), 0);
  cr_assert_eq(sigaction(SIGUSR1, &another, NULL), 0);
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 20; i++) raise(SIGPROF);
  t_finish(session);
  cr_assert_eq(calls, 20);
  cr_assert_eq(nested_calls, 20);
  cr_assert_eq(refusals, 20);
  cr_assert_eq(nested_on_alternate, 0);
  cr_assert_eq(sigaltstack(NULL, &after), 0);
  cr_assert(after.ss_sp == alternate && after.ss_size == 32768 && after.ss_flags == 0);
}
