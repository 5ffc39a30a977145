/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86_64 system calls (System V ABI, AMD64 supplement, A.2.1): number in rax, arguments rdi rsi rdx r10 r8 r9. */
#ifndef ONSTACK_BASE_SYS_X86_64_H
#define ONSTACK_BASE_SYS_X86_64_H

#define ONSTACK_VDSO_CLOCK_GETTIME "__vdso_clock_gettime"

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER long onstack_sys_call6(long number, long a, long b,
                                                                                            long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

#endif
