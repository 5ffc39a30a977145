/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps through code that no module describes (sampler/unwind/generated_code.h). */
#include "support.h"

#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"

#include <string.h>

TestSuite(generated_code, .init = t_setup);

static bool read_here(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  memcpy(words, (const void *)(uintptr_t)address, 16);
  return true;
}

/* Code that leaves the frame pointer as Go set it, as wazero's guests do on aarch64: its record is that of the Go function
   that entered it, and whoever called it on the stack of its own is not there. */
Test(generated_code, a_record_of_generated_code_that_leads_into_go) {
  static uint64_t stack[8];
  stack[2] = (uint64_t)(uintptr_t)&stack[6];
  stack[3] = 0x500010;
  onstack_code.go[0].text = (onstack_code_range){0x500000, 0x600000};
  onstack_code.go_count = 1;
  const onstack_reader here = {.name = "here", .read_pair = read_here};
  onstack_memory memory = {.reader = &here};
  const uint64_t sp = (uint64_t)(uintptr_t)stack;
  const onstack_code_frame begin = {.pc = 0x700000, .sp = sp, .fp = sp + 16, .low = sp, .exact = true};
  onstack_code_frame frame = begin;
  onstack_truncation result = onstack_generated_step(&frame, &memory);
#if defined(__aarch64__)
  cr_assert_eq(result, ONSTACK_TRUNCATED_STACK_SWITCH, "reason %u", result);
#else
  cr_assert_eq(result, ONSTACK_TRUNCATED_NOT, "reason %u", result);
#endif
  stack[3] = 0x700100; /* an ordinary caller */
  frame = begin;
  result = onstack_generated_step(&frame, &memory);
  cr_assert_eq(result, ONSTACK_TRUNCATED_NOT, "reason %u", result);
  cr_assert_eq(frame.pc, 0x700100);
  cr_assert_eq(frame.fp, stack[2]);
}

/* Guile, qemu and BEAM keep other things in that register: no stack of ours, and no fault of a frame pointer. */
Test(generated_code, a_register_that_is_no_frame_pointer_means_that_nothing_describes_the_code) {
  static uint64_t stack[8];
  const onstack_reader here = {.name = "here", .read_pair = read_here};
  onstack_memory memory = {.reader = &here};
  const uint64_t sp = (uint64_t)(uintptr_t)(stack + 4);
  const uint64_t others[] = {sp - 8, sp + 4, 0x1234567, 0x1234560};
  for (int exact = 0; exact < 2; exact++) {
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
      onstack_code_frame frame = {.pc = 0x700000, .sp = sp, .fp = others[i], .low = sp, .exact = exact};
      cr_assert_eq(onstack_generated_step(&frame, &memory), ONSTACK_TRUNCATED_NO_RULE, "%#lx", (unsigned long)others[i]);
    }
  }
}
