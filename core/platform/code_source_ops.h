/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The seam for code that no module describes: what a just-in-time compiler wrote, mostly. A source knows how to step
 * through it, what it is called, and hears when it comes and goes: in three contexts, so those functions of a variant may lie
 * in three files. Each may be NULL but the first. code_source_handler.c chooses the variant: one for the process.
 * Names by what engines write or register, whoever walks their code, are profile/generated/generated.h's.
 *
 * A variant that knows some of the code leaves the rest to sampler/unwind/code_source_frame_pointers_handler.c.
 */
#ifndef ONSTACK_PLATFORM_CODE_SOURCE_OPS_H
#define ONSTACK_PLATFORM_CODE_SOURCE_OPS_H

#include "platform/defs.h"
#include "onstack/onstack.h"

struct onstack_memory;

typedef struct onstack_code_range {
  uint64_t low;
  uint64_t high;
} onstack_code_range;

/* A frame in such code; after a step, that of its caller. */
typedef struct onstack_code_frame {
  uint64_t pc, sp, fp;
  uint64_t low;  /* the interrupted stack pointer: what lies below it on its stack is nobody's */
  bool exact;    /* pc was interrupted there; else it is a return address. After a step it is one */
  bool switched; /* set by a step: the caller is on another stack, which the memory reader was told of */
} onstack_code_frame;

typedef struct onstack_code_source {
  const char *name;
  /* Steps to the caller; pc 0: there is none, the stack is whole. Another result than ONSTACK_TRUNCATED_NOT says why the
     stack is cut here. `memory`: sampler/unwind/memory.h. In the signal handler, and wherever a stack is walked again. */
  onstack_truncation (*step)(onstack_code_frame *frame, struct onstack_memory *memory);
  /* All executable ranges have changed to these, sorted, those of modules too (sampler/unwind/rules.h tells them
     apart). Ordinary threads, under the map lock: calls nothing that asks for mappings. */
  void (*ranges_changed)(const onstack_code_range *ranges, uint32_t count);
  /* Writes the name of the function at an address, NUL-terminated; false: not known. Ordinary threads, without a lock. */
  bool (*symbol)(uint64_t address, char *name, size_t size);
  /* What its memory is called among the mappings of a profile; NULL: "//anon". */
  const char *mapping;
} onstack_code_source;

#endif
