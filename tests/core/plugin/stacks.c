/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that makes alternate stacks for its threads (test_nesting_fit.c). */
#include <signal.h>

int stacks_make(const stack_t *stack);
int stacks_make(const stack_t *stack) { return sigaltstack(stack, 0); }
