/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* x86_64 system calls (System V ABI, AMD64 supplement, A.2.1): number in rax, arguments rdi rsi rdx r10 r8 r9. */
#ifndef ONSTACK_PLATFORM_SYS_X86_64_H
#define ONSTACK_PLATFORM_SYS_X86_64_H

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

/* Whether this program runs under valgrind: the instructions change nothing on a processor, and valgrind takes them for the
   request in rax (valgrind.h, VALGRIND_DO_CLIENT_REQUEST_EXPR). Ordinary threads. */
static inline __attribute__((unused)) bool onstack_sys_is_valgrind(void) {
  const uint64_t request[6] = {0x1001}; /* VG_USERREQ__RUNNING_ON_VALGRIND */
  uint64_t result = 0;
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "+d"(result)
                   : "a"(request)
                   : "cc", "memory");
  return result != 0;
}

#endif
