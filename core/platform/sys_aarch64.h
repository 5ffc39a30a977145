/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* aarch64 system calls (arch/arm64 in Linux): number in x8, arguments x0 .. x5, result in x0. */
#ifndef ONSTACK_PLATFORM_SYS_AARCH64_H
#define ONSTACK_PLATFORM_SYS_AARCH64_H

#define ONSTACK_VDSO_CLOCK_GETTIME "__kernel_clock_gettime"

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER long onstack_sys_call6(long number, long a, long b,
                                                                                            long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
}

/* Whether this program runs under valgrind: the instructions change nothing on a processor, and valgrind takes them for the
   request in x4 (valgrind.h, VALGRIND_DO_CLIENT_REQUEST_EXPR). Ordinary threads. */
static inline __attribute__((unused)) bool onstack_sys_is_valgrind(void) {
  const uint64_t request[6] = {0x1001}; /* VG_USERREQ__RUNNING_ON_VALGRIND */
  register uint64_t x3 __asm__("x3") = 0;
  register const uint64_t *x4 __asm__("x4") = request;
  __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10"
                   : "+r"(x3)
                   : "r"(x4)
                   : "cc", "memory");
  return x3 != 0;
}

#endif
