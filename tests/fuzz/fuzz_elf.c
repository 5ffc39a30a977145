/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols, build id and segments of an ELF image of any content, as a file and as an image in memory. Promises: bounded
 * reading and memory, names with an end, and both ways say the same.
 */
#include "fuzz.h"

#include "platform/elf_file.h"
#include "profile/elf/elf_symbols.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define QUERIES 24u

static int image_file = -1;

typedef struct result {
  onstack_elf_build_id id;
  bool has_code;
  uint64_t difference;
  uint64_t names, sections; /* hashes of all */
} result;

static uint64_t hash_names(const onstack_elf_query *queries) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < QUERIES; i++) {
    const char *name = queries[i].name;
    if (name) fuzz_check(name[0] != 0 && queries[i].address >= queries[i].value);
    for (; name && *name; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    hash = (hash ^ i) * 0x100000001b3u;
  }
  return hash;
}

/* The longest is cut, whatever room there is. */
static uint64_t hash_sections(const onstack_elf_file *file) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < file->section_count && i < 64; i++) {
    const size_t room = 1 + i % 12;
    char *name = malloc(room);
    if (!name) abort();
    onstack_elf_section_name(file, &file->sections[i], name, room);
    fuzz_check(strnlen(name, room) < room);
    for (const char *at = name; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    hash = (hash ^ i) * 0x100000001b3u;
    free(name);
  }
  return hash;
}

static void find_names(const onstack_elf_file *file, result *out) {
  onstack_elf_query queries[QUERIES];
  onstack_profile_arena names = {0};
  memset(queries, 0, sizeof(queries));
  for (uint32_t i = 0; i < QUERIES; i++)
    queries[i].address = i < 16 ? 0x1000 + i * 0x24 : i < 20 ? (uint64_t)i << 20 : UINT64_MAX - 23 + i;
  fuzz_check(onstack_elf_symbols_find(file, ONSTACK_ELF_SECTION_SYMTAB, queries, QUERIES, &names) == 0);
  fuzz_check(onstack_elf_symbols_find(file, ONSTACK_ELF_SECTION_DYNSYM, queries, QUERIES, &names) == 0);
  out->names = hash_names(queries);
  onstack_profile_arena_release(&names);
}

static void read_all(const onstack_elf_file *file, result *out) {
  memset(out, 0, sizeof(*out));
  onstack_elf_read_build_id(file, &out->id);
  fuzz_check(out->id.length <= ONSTACK_ELF_BUILD_ID_MAX);
  out->has_code = onstack_elf_code_to_vaddr(file, 0x1000, 0x2000, &out->difference);
  uint64_t other;
  onstack_elf_code_to_vaddr(file, UINT64_MAX, UINT64_MAX, &other);
  find_names(file, out);
  out->sections = hash_sections(file);
}

/* Images in memory are copied by process_vm_readv, which qemu-user does not have. */
static bool can_read_memory(void) {
  char from = 1, to = 0;
  struct iovec local = {&to, 1}, remote = {&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  onstack_elf_file file, memory;
  result from_file, from_memory;
  char path[64];
  if (image_file < 0) image_file = memfd_create("image", MFD_CLOEXEC);
  if (ftruncate(image_file, 0) != 0 || pwrite(image_file, data, size, 0) != (ssize_t)size) return 0;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", image_file);
  int opened = onstack_elf_open_file(&file, path);
  if (opened == 0) read_all(&file, &from_file);
  if (!can_read_memory()) {
    if (opened == 0) onstack_elf_close(&file);
    return 0;
  }
  int also = onstack_elf_open_memory(&memory, (uint64_t)(uintptr_t)data, size);
  fuzz_check(opened == also);
  if (opened != 0) return 0;
  read_all(&memory, &from_memory);
  fuzz_check(memcmp(&from_file, &from_memory, sizeof(result)) == 0);
  onstack_elf_close(&file);
  onstack_elf_close(&memory);
  return 0;
}
