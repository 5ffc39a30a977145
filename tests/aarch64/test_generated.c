/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The caller of generated code at the instructions where the frame pointer is still, or again, its caller's. */
#include "check.h"
#include "onstack/traceback.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
  CALL_CALL = 2, /* blr */
  LEAF = 5,      /* behind call() */
  LEAF_MOVE = LEAF + 1,
  LEAF_BODY = LEAF + 2,
  LEAF_RETURN = LEAF + 4,
};

static const uint32_t instructions[] = {
    0xa9bf7bfd, /* call: stp x29, x30, [sp, #-16]! */
    0x910003fd, /* mov x29, sp */
    0xd63f0000, /* blr x0 */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
    0xa9be7bfd, /* leaf: stp x29, x30, [sp, #-32]! */
    0x910003fd, /* mov x29, sp */
    0xd503201f, /* nop */
    0xa8c27bfd, /* ldp x29, x30, [sp], #32 */
    0xd65f03c0, /* ret */
};

int main(void) {
  const size_t size = sizeof(instructions);
  uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, instructions, size);
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  __builtin___clear_cache((char *)code, (char *)code + size);
  check(onstack_traceback_prepare() == 0, "generated: tables", "%s", "prepared");
  const uint64_t at = (uint64_t)(uintptr_t)code, back = at + 4 * (CALL_CALL + 1);
  uint64_t stack[8] = {0};
  const uint64_t leaf = (uint64_t)(uintptr_t)&stack[0], call = (uint64_t)(uintptr_t)&stack[4];
  stack[0] = call, stack[1] = back;                        /* the leaf's record */
  stack[4] = 0, stack[5] = (uint64_t)(uintptr_t)&main + 4; /* call()'s */
  const struct {
    uint32_t instruction;
    uint64_t sp, fp;
  } points[] = {{LEAF, call, call}, {LEAF_MOVE, leaf, call}, {LEAF_BODY, leaf, leaf}, {LEAF_RETURN, call, call}};
  for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
    uint64_t frames[8];
    char name[64];
    const onstack_registers registers = {
        .pc = at + 4 * points[i].instruction, .sp = points[i].sp, .fp = points[i].fp, .lr = back};
    const uint32_t count = onstack_traceback_walk(&registers, frames, 8);
    snprintf(name, sizeof(name), "generated: the caller at instruction %u", points[i].instruction);
    check(count >= 2 && frames[1] + 1 == back, name, "%u frames, the second at %#lx", count,
          count >= 2 ? (unsigned long)(frames[1] - at) : 0ul);
  }
  return check_status();
}
