/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/ring/kept.h"

#include "platform/sys.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/memory.h"

/* What is below a goroutine's stack pointer while it waits: nothing that the walk reads but the link below it. */
#define KEPT_BELOW 64u

/* The red zone of x86-64's ABI: registers that an epilogue has popped lie there, and their rules find them still. */
#define KEPT_RED_ZONE 128u

/*
 * Bytes of the stack to copy from `low` up. Memory above the end of the thread's stack is another's: the copy would wait there
 * for ever if this very thread had to bring the page (userfaultfd). The end of a fiber's stack is not known.
 */
static ONSTACK_HANDLER uint64_t kept_native_bytes(uint64_t low) {
  const uint64_t end = onstack_memory_stack_end(low);
  return end != 0 && end - low < ONSTACK_KEPT_NATIVE ? (end - low) & ~(uint64_t)15 : ONSTACK_KEPT_NATIVE;
}

/* As much as can be read without a gap. */
static ONSTACK_HANDLER onstack_kept_piece kept_copy(uint64_t low, uint64_t size, uint8_t *out) {
  struct onstack_vector local = {(uint64_t)(uintptr_t)out, size}, remote = {low, size};
  const long got = onstack_sys_process_vm_readv(&local, 1, &remote, 1);
  return (onstack_kept_piece){low, got > 0 ? low + (uint64_t)got : low};
}

/* The goroutine that called the interrupted native code, by the thread's g (sampler/unwind/go_stack.h). */
static ONSTACK_HANDLER void kept_copy_goroutine(onstack_kept *kept) {
  const uint32_t runtimes = onstack_observe(&onstack_code.go_count); /* pairs with the publish in control */
  onstack_memory memory = {.reader = &onstack_reader_copy, .copy_works = true};
  onstack_go_point waits;
  for (uint32_t i = 0; i < runtimes && kept->g == 0; i++) {
    const uint64_t g = onstack_go_waiting(&memory, &onstack_code.go[i], &waits);
    if (g == 0 || !onstack_memory_copy_pair(g, kept->g_stack)) continue;
    const uint64_t low = (waits.sp - KEPT_BELOW) & ~(uint64_t)15, size = kept->g_stack[1] - low;
    kept->go = kept_copy(low, size < ONSTACK_KEPT_GO ? size : ONSTACK_KEPT_GO, kept->go_bytes);
    kept->g = g;
  }
}

/* Where the stack is one of another kind, what is copied is other memory of the process, which no walk asks for. */
static ONSTACK_HANDLER void kept_copy_first(onstack_kept *kept) {
  const uint64_t from = kept->native.high - 16; /* a pair may lie in both pieces */
  const uint64_t end = onstack_memory_stack_end(kept->native.high) & ~(uint64_t)15;
  if (end == 0) return;
  const uint64_t low = end - from > ONSTACK_KEPT_FIRST ? end - ONSTACK_KEPT_FIRST : from;
  kept->first = kept_copy(low, end - low, kept->first_bytes);
}

ONSTACK_HANDLER_APART uint32_t onstack_keep(onstack_kept *pool, const onstack_registers *registers) {
  for (uint32_t i = 0; pool && i < ONSTACK_KEPT_STACKS; i++) {
    uint32_t expected = 0;
    onstack_kept *kept = &pool[i];
    if (onstack_load_relaxed(&kept->taken) != 0 || !onstack_cas(&kept->taken, &expected, 1u)) continue;
    kept->registers = *registers;
    kept->g = 0;
    kept->go.low = kept->go.high = 0;
    kept->first.low = kept->first.high = 0;
    const uint64_t low = (registers->sp - KEPT_RED_ZONE) & ~(uint64_t)15;
    kept->native = kept_copy(low, kept_native_bytes(low), kept->native_bytes);
    if (kept->native.high == kept->native.low) {
      onstack_kept_release(kept);
      return 0;
    }
    if (kept->native.high - low == ONSTACK_KEPT_NATIVE) kept_copy_first(kept);
    kept_copy_goroutine(kept);
    return i + 1;
  }
  return 0;
}

ONSTACK_HANDLER void onstack_kept_release(onstack_kept *kept) { onstack_publish(&kept->taken, 0u); }

static ONSTACK_HANDLER bool kept_read_piece(const onstack_kept_piece *piece, const uint8_t *bytes, uint64_t address,
                                            uint64_t words[2]) {
  if (address & 7 || address < piece->low || address >= piece->high || piece->high - address < 16) return false;
  const uint64_t *from = (const uint64_t *)(const void *)(bytes + (address - piece->low));
  words[0] = from[0];
  words[1] = from[1];
  return true;
}

ONSTACK_HANDLER bool onstack_kept_read(const onstack_kept *kept, uint64_t address, uint64_t words[2]) {
  if (kept->g != 0 && address == kept->g) {
    words[0] = kept->g_stack[0];
    words[1] = kept->g_stack[1];
    return true;
  }
  return kept_read_piece(&kept->native, kept->native_bytes, address, words) ||
         kept_read_piece(&kept->first, kept->first_bytes, address, words) ||
         kept_read_piece(&kept->go, kept->go_bytes, address, words);
}
