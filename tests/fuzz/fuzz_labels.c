/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Goroutine labels out of a heap of any content, with structures that point anywhere. Promises: the buffer is not left,
 * and what is in it are whole pairs of texts, each with its end, no key empty; without a goroutine nothing.
 * Input: one byte (the buffer's size), one (how much of the addresses is mapped, see fuzz_read), then the heap.
 */
#include "fuzz.h"

#include "platform/defs.h"
#include "platform/sys.h"
#include "sampler/threads/thread_table.h"

/* The process's memory: the heap's bytes, at HEAP or, where so chosen, at any plausible address modulo their number. */
#define HEAP ((uint64_t)0xc000000000)
static const uint8_t *heap;
static size_t heap_bytes;
static bool heap_everywhere;

static uint64_t fuzz_place(uint64_t address) {
  if (heap_bytes == 0) return UINT64_MAX;
  return heap_everywhere ? address % heap_bytes : address - HEAP;
}

/* As process_vm_readv: what is readable up to the first byte that is not, -EFAULT when that is none. */
static long fuzz_read(const struct onstack_vector *local, uint32_t locals, const struct onstack_vector *remote,
                      uint32_t remotes) {
  long got = 0;
  fuzz_check(locals == remotes);
  for (uint32_t i = 0; i < remotes; i++) {
    uint64_t at = fuzz_place(remote[i].base), length = remote[i].length;
    fuzz_check(local[i].length == length);
    uint64_t some = at >= heap_bytes ? 0 : length < heap_bytes - at ? length : heap_bytes - at;
    if (some > 0) memcpy((void *)(uintptr_t)local[i].base, heap + at, some);
    got += (long)some;
    if (some < length) break;
  }
  return got > 0 ? got : -14;
}
#define onstack_sys_process_vm_readv(local, locals, remote, remotes) fuzz_read(local, locals, remote, remotes)
#define onstack_thread_pointer() (HEAP + 64)
#include "sampler/labels/labels_handler.c"

static void check_pairs(const uint8_t *out, uint32_t used) {
  for (uint32_t at = 0; at < used;) {
    for (uint32_t part = 0; part < 2; part++) {
      const uint8_t *end = memchr(out + at, 0, used - at);
      fuzz_check(end && (part == 1 || end > out + at));
      at = (uint32_t)(end - out) + 1;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  uint32_t room = (uint32_t)fuzz_take(&input, 1);
  heap_everywhere = fuzz_take(&input, 1) & 1;
  heap_bytes = input.left;
  uint8_t *copy = fuzz_copy(input.at, heap_bytes), *out = malloc(room ? room : 1);
  if (!out) abort();
  heap = copy;
  onstack_go_runtime *go = calloc(1, sizeof(*go));
  if (!go) abort();
  go->layout = (onstack_go_layout){.tls_g = (uint64_t)-64, .g_m = 8, .m_curg = 16, .g_labels = 24, .known = true};
  uint32_t got = onstack_go_labels_copy(go, out, room), used = got & ~ONSTACK_GO_LABELS_CUT;
  fuzz_check(used <= room);
  fuzz_check(got == 0 || onstack_go_current(go) != 0);
  check_pairs(out, used);
  free(go);
  free(out);
  free(copy);
  return 0;
}
