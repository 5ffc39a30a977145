/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with a list of images for GDB, as compilers at run time have one. */
#include <stdint.h>

struct descriptor {
  uint32_t version, action;
  void *relevant, *first;
};

struct descriptor __jit_debug_descriptor = {1, 0, 0, 0};

void __jit_debug_register_code(void);
__attribute__((noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }
