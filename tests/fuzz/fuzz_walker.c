/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The walkers `rules` and `frame_pointer` on random registers, rule tables, Go function tables and stacks. Promises:
 * they end, after a bounded number of reads; write no more frames than there is room; read only aligned plausible
 * addresses, and real memory only inside the stack's bounds; and each frame is code, or is marked as one that the map
 * of code has to be asked for, and is cut by that.
 *
 * Numbers come as one byte that picks a kind and two bytes of offset, so that a third of them are addresses in a stack
 * or in code. Memory outside the stack holds anything at all (hostile), or nothing; or the stack is real memory
 * between two guard pages and the readers are the true ones (where a fault would end this process).
 */
#include "fuzz.h"
#include "world.h"

#include "sampler/unwind/walk.h"
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/unwinder.h"

static unsigned long long walks, steps;
static void say_steps(void) { printf("walker: %llu walks, %llu steps\n", walks, steps); }
__attribute__((constructor)) static void say_steps_at_exit(void) { atexit(say_steps); }

static bool is_code(uint64_t frame) { return world_is_code(frame) || world_is_code(frame - 1); }

static void check_result(const onstack_walk *walk, const onstack_walk_result *result) {
  fuzz_check(result->frame_count >= 1 && result->frame_count <= walk->capacity);
  fuzz_check(result->truncation < ONSTACK_TRUNCATION_COUNT);
  fuzz_check(walk->frames[0] == walk->registers->pc);
  for (uint32_t i = 1; i < result->frame_count; i++)
    fuzz_check(is_code(walk->frames[i]) || walk->unwound_by[i - 1] & ONSTACK_BY_UNLISTED);
  /* Less than a hundred reads a frame: rows, switches of stacks, Go's g and m. */
  fuzz_check(world_reads() <= 100u * (result->frame_count + 1));
  const uint32_t believed = onstack_call_sites_check(walk->frames, walk->unwound_by, result->frame_count);
  fuzz_check(believed >= 1 && believed <= result->frame_count);
  for (uint32_t i = 1; i < believed; i++) fuzz_check(is_code(walk->frames[i]));
}

static void walk_once(const onstack_unwinder_ops *unwinder, const onstack_registers *registers, onstack_memory memory,
                      uint32_t capacity) {
  onstack_walk walk = {.registers = registers,
                       .memory = &memory,
                       .frames = malloc(capacity * sizeof(uint64_t)),
                       .capacity = capacity,
                       .unwound_by = malloc(capacity)};
  if (!walk.frames || !walk.unwound_by) abort();
  world_forget_reads();
  onstack_memory_enter_stack(&memory, registers->sp);
  onstack_walk_result result = unwinder->run(&walk);
  check_result(&walk, &result);
  walks++;
  steps += result.frame_count; /* the last one found no caller */
  free(walk.frames);
  free(walk.unwound_by);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  onstack_memory memory;
  onstack_registers registers;
  uint32_t capacity = 1 + (uint32_t)fuzz_take(&input, 1) % 160;
  world_make(&input, &memory);
  registers.pc = world_number(&input);
  registers.sp = world_number(&input);
  registers.fp = world_number(&input);
  registers.lr = world_number(&input);
  registers.reserved[ONSTACK_REGISTER_RBX] = world_number(&input);
  world_fill_stack(&input);
  onstack_pc_epoch++;                     /* nothing is remembered of the world before */
  for (int again = 0; again < 2; again++) /* then from the cache */
    walk_once(&onstack_unwinder_rules, &registers, memory, capacity);
  walk_once(&onstack_unwinder_frame_pointer, &registers, memory, capacity);
  world_end();
  return 0;
}
