/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A list of images that are registered for GDB, and what they hold, of any content. Promises: reading ends, names are not
 * empty and stand in the memory that was read, and what is named once stays so.
 * Input: memory as it lies at ARENA, which begins with the descriptor.
 */
#include "fuzz.h"

#include "profile/generated/gdb_jit.c" /* its static functions */

#include <sys/mman.h>

#define ARENA 0x20000000
#define ARENA_BYTES 65536u

static const uint64_t fuzz_addresses[] = {0, 1, 0xfff, 0x1000, 0x1010, 0x1018, 0x2000, UINT64_MAX - 1, UINT64_MAX};
#define FUZZ_ADDRESSES (sizeof(fuzz_addresses) / sizeof(fuzz_addresses[0]))

static void check_names(const gdb_jit *jit, const char *memory) {
  for (size_t i = 0; i < jit->count; i++) {
    const char *name = jit->queries[i].name;
    fuzz_check(!name == (jit->queries[i].number == 0));
    if (!name) continue;
    fuzz_check(name[0] != 0);
    fuzz_check(memmem(memory, ARENA_BYTES, name, strlen(name)));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char *memory;
  onstack_elf_query queries[FUZZ_ADDRESSES];
  onstack_profile_arena names = {0};
  const char *engines[FUZZ_ADDRESSES] = {NULL};
  uint64_t word;
  if (!memory) {
    memory =
        mmap((void *)ARENA, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != (void *)ARENA) abort();
    /* Images in memory are copied by process_vm_readv, which qemu-user does not have. */
    if (!onstack_process_memory_read(ARENA, &word, sizeof(word))) exit(0);
  }
  if (size > ARENA_BYTES) return 0;
  memcpy(memory, data, size);
  memset(memory + size, 0, ARENA_BYTES - size);
  memset(queries, 0, sizeof(queries));
  for (size_t i = 0; i < FUZZ_ADDRESSES; i++) queries[i].address = fuzz_addresses[i];
  gdb_jit jit = {.queries = queries, .count = FUZZ_ADDRESSES, .engines = engines, .names = &names};
  fuzz_check(gdb_jit_read_list(&jit, ARENA, NULL) == 0);
  check_names(&jit, memory);
  const char *first = queries[3].name;
  fuzz_check(gdb_jit_read_list(&jit, ARENA, "again") == 0);
  fuzz_check(!first || (queries[3].name == first && !engines[3]));
  check_names(&jit, memory);
  onstack_profile_arena_release(&names);
  return 0;
}
