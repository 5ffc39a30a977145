/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the interrupted code had is what it has afterwards: errno, flags, floating point and vector registers. */
#include "support.h"

#include <errno.h>
#include <fenv.h>
#include <string.h>

TestSuite(undisturbed, .init = t_setup);

static onstack_session *start_fast(void) {
  onstack_options options = t_options(1000, NULL, NULL);
  return t_start(&options);
}

static void enough(onstack_session *session) {
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.samples, 30, "%lu samples", stats.samples);
}

Test(undisturbed, errno_survives) {
  onstack_session *session = start_fast();
  double end = t_thread_cpu() + 0.8;
  for (int value = 1; t_thread_cpu() < end; value = value % 130 + 1) {
    errno = value;
    for (volatile int i = 0; i < 20000; i++) continue;
    cr_assert_eq(errno, value);
  }
  enough(session);
}

/* On a forwarded signal errno is the owner's to save, but ours must not be mixed in: the owner sees the interrupted one. */
static volatile int errno_seen;
static void looks_at_errno(int signal) {
  (void)signal;
  errno_seen = errno;
}
Test(undisturbed, an_owner_sees_the_interrupted_errno) {
  signal(SIGPROF, looks_at_errno);
  onstack_session *session = start_fast();
  for (int value = 1; value < 100; value++) {
    errno = value;
    raise(SIGPROF);
    cr_assert_eq(errno_seen, value);
  }
  t_finish(session);
}

/* The same long sum with and without ticks is the same to the last bit. */
__attribute__((noinline)) static double long_sum(int rounds) {
  double a = 0.1, b = 1.0, c = 3.0, d = -2.5;
  for (int i = 0; i < rounds; i++) {
    a = a * 1.0000001 + 0.3;
    b = b / 1.0000003 + a * 1e-9;
    c = c - b * 1e-7;
    d = d * 0.9999999 + c;
    __asm__ volatile(""); /* or equal calls become one */
  }
  return a + b + c + d;
}
Test(undisturbed, floating_point_survives) {
  double alone = long_sum(60000000);
  onstack_session *session = start_fast();
  for (int i = 0; i < 4; i++) {
    double sampled = long_sum(60000000);
    cr_assert_eq(memcmp(&alone, &sampled, sizeof(alone)), 0);
  }
  enough(session);
}

Test(undisturbed, rounding_mode_survives) {
  onstack_session *session = start_fast();
  fesetround(FE_UPWARD);
  double end = t_thread_cpu() + 0.6;
  bool same = true;
  while (t_thread_cpu() < end) {
    for (volatile int i = 0; i < 50000; i++) continue;
    same = same && fegetround() == FE_UPWARD;
  }
  fesetround(FE_TONEAREST);
  cr_assert(same);
  enough(session);
}

#if defined(__x86_64__)
/* All general and vector registers hold patterns over a loop that ticks interrupt. */
__attribute__((noinline)) static uint64_t registers_differ(uint64_t turns) {
  uint64_t differ;
  __asm__ volatile("mov $0x1111, %%r8\n\tmov $0x2222, %%r9\n\tmov $0x3333, %%r10\n\tmov $0x4444, %%r11\n\t"
                   "mov $0x5555, %%r12\n\tmov $0x6666, %%r13\n\tmov $0x7777, %%rsi\n\tmov $0x8888, %%rdi\n\t"
                   "movq %%r8, %%xmm0\n\tmovq %%r9, %%xmm7\n\tmovq %%r10, %%xmm8\n\tmovq %%r11, %%xmm15\n\t"
                   "1: dec %1\n\tjnz 1b\n\t"
                   "xor %0, %0\n\t"
                   "xor $0x5555, %%r12\n\tor %%r12, %0\n\txor $0x6666, %%r13\n\tor %%r13, %0\n\t"
                   "xor $0x7777, %%rsi\n\tor %%rsi, %0\n\txor $0x8888, %%rdi\n\tor %%rdi, %0\n\t"
                   "movq %%xmm0, %%r12\n\txor %%r8, %%r12\n\tor %%r12, %0\n\t"
                   "movq %%xmm7, %%r12\n\txor %%r9, %%r12\n\tor %%r12, %0\n\t"
                   "movq %%xmm8, %%r12\n\txor %%r10, %%r12\n\tor %%r12, %0\n\t"
                   "movq %%xmm15, %%r12\n\txor %%r11, %%r12\n\tor %%r12, %0\n\t"
                   "xor $0x1111, %%r8\n\tor %%r8, %0\n\txor $0x2222, %%r9\n\tor %%r9, %0\n\t"
                   "xor $0x3333, %%r10\n\tor %%r10, %0\n\txor $0x4444, %%r11\n\tor %%r11, %0\n\t"
                   : "=&a"(differ), "+c"(turns)
                   :
                   : "r8", "r9", "r10", "r11", "r12", "r13", "rsi", "rdi", "xmm0", "xmm7", "xmm8", "xmm15", "cc");
  return differ;
}
Test(undisturbed, registers_survive) {
  onstack_session *session = start_fast();
  double end = t_thread_cpu() + 0.8;
  while (t_thread_cpu() < end) cr_assert_eq(registers_differ(20000000), 0);
  enough(session);
}
#endif

/* A mask that code has set stays its own. */
Test(undisturbed, the_signal_mask_survives) {
  onstack_session *session = start_fast();
  double end = t_thread_cpu() + 0.7;
  onstack_kernel_sigset set = ONSTACK_SIGBIT(SIGUSR1) | ONSTACK_SIGBIT(SIGHUP), now = 0;
  onstack_sys_sigprocmask(SIG_SETMASK, &set, NULL);
  while (t_thread_cpu() < end) {
    for (volatile int i = 0; i < 50000; i++) continue;
    onstack_sys_sigprocmask(SIG_SETMASK, NULL, &now);
    cr_assert_eq(now, set);
  }
  enough(session);
}
