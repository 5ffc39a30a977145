/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with 100,000 entries in .eh_frame, whose unwind rules take a profiler some time to derive. */

int large_function(int count);

__attribute__((noinline)) static int large_loop(int count) {
  volatile int sum = 0;
  for (int i = 0; i < count; i++) sum += i;
  return sum;
}

int large_function(int count) {
  const int sum = large_loop(count);
  __asm__ volatile("" ::: "memory"); /* no tail call */
  return sum;
}

__asm__(".text\n"
        ".rept 100000\n"
        ".cfi_startproc\n"
        "nop\n"
        ".cfi_def_cfa_offset 32\n"
        "nop\n"
        ".cfi_endproc\n"
        ".endr\n");
