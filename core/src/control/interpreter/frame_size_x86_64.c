/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/interpreter/frame_size.h"

#include "base/process_memory.h"
#include "control/unwind/prologue_x86_64.h"

#include <string.h>

#if defined(__x86_64__)

#define FRAME_SIZE_ENTRY 16u     /* mov %rsp,%rbp lies within, behind an endbr64 and pushes */
#define FRAME_SIZE_PROLOGUE 128u /* what moves SP lies within */

uint64_t onstack_frame_size(uint64_t address) {
  static const uint8_t move[] = {0x48, 0x89, 0xe5};
  uint8_t code[FRAME_SIZE_ENTRY];
  if (onstack_process_memory_copy(address, code, sizeof(code)) != sizeof(code)) return 0;
  const uint8_t *found = memmem(code, sizeof(code), move, sizeof(move));
  if (!found) return 0;
  const onstack_prologue prologue = {.framed = address + (uint64_t)(found - code) + sizeof(move)};
  const int64_t depth = onstack_prologue_depth(&prologue, address + FRAME_SIZE_PROLOGUE);
  return depth > 0 ? (uint64_t)depth : 0;
}

#endif
