/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/instructions.h"

#include "platform/process_memory.h"
#include "sampler/modules/prologue_x86_64.h"

#include <string.h>

#if defined(__x86_64__)

#define INSTRUCTIONS_ENTRY 16u     /* mov %rsp,%rbp lies within, behind an endbr64 and pushes */
#define INSTRUCTIONS_PROLOGUE 128u /* what moves SP lies within */

static bool instructions_read(uint64_t address, uint8_t code[INSTRUCTIONS_ENTRY]) {
  return onstack_process_memory_copy(address, code, INSTRUCTIONS_ENTRY) == INSTRUCTIONS_ENTRY;
}

bool onstack_instructions_frame(uint64_t address, uint64_t *size) {
  static const uint8_t move[] = {0x48, 0x89, 0xe5};
  uint8_t code[INSTRUCTIONS_ENTRY];
  *size = 0;
  if (!instructions_read(address, code)) return false;
  const uint8_t *found = memmem(code, sizeof(code), move, sizeof(move));
  if (!found) return true;
  const onstack_prologue prologue = {.framed = address + (uint64_t)(found - code) + sizeof(move)};
  const int64_t depth = onstack_prologue_depth(&prologue, address + INSTRUCTIONS_PROLOGUE);
  if (depth > 0) *size = (uint64_t)depth;
  return depth > 0;
}

/* mov place(%rip),%rax, or as a linker relaxes it mov $value,%rax; ret. */
bool onstack_instructions_constant(uint64_t address, uint64_t *value) {
  static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa};
  uint8_t code[INSTRUCTIONS_ENTRY];
  int32_t operand;
  if (!instructions_read(address, code)) return false;
  const size_t at = memcmp(code, branch_target, sizeof(branch_target)) == 0 ? sizeof(branch_target) : 0;
  const uint8_t *load = code + at;
  if (load[0] != 0x48 || load[7] != 0xc3) return false;
  memcpy(&operand, load + 3, sizeof(operand));
  *value = (uint64_t)(int64_t)operand;
  if (load[1] == 0xc7 && load[2] == 0xc0) return true;
  return load[1] == 0x8b && load[2] == 0x05 &&
         onstack_process_memory_copy(address + at + 7 + *value, value, sizeof(*value)) == sizeof(*value);
}

#endif
