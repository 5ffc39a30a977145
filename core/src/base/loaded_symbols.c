/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/loaded_symbols.h"

#ifdef __linux__
#include <string.h>

/* Symbols of a DT_GNU_HASH table: the highest index that a chain reaches, plus one (the table has no count). */
static uint64_t loaded_gnu_hash_count(const uint32_t *table) {
  uint32_t bucket_count = table[0], offset = table[1], bloom_count = table[2];
  const uint32_t *buckets = table + 4 + (size_t)bloom_count * 2;
  const uint32_t *chains = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; i++)
    if (buckets[i] > last) last = buckets[i];
  if (last < offset) return 0;
  while (!(chains[last - offset] & 1)) last++;
  return (uint64_t)last + 1;
}

/* glibc has added the bias to what it needs itself; musl and the kernel have not. */
static const void *loaded_target(uint64_t address, uint64_t bias) {
  return (const void *)(uintptr_t)(address < bias ? bias + address : address);
}

bool onstack_loaded_symbols_read(const Elf64_Dyn *dynamic, uint64_t bias, onstack_loaded_symbols *symbols) {
  *symbols = (onstack_loaded_symbols){NULL, NULL, 0};
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    const void *target = loaded_target(dynamic->d_un.d_ptr, bias);
    if (dynamic->d_tag == DT_SYMTAB) symbols->symbols = target;
    if (dynamic->d_tag == DT_STRTAB) symbols->strings = target;
    if (dynamic->d_tag == DT_HASH) symbols->count = ((const uint32_t *)target)[1];
    if (dynamic->d_tag == DT_GNU_HASH && symbols->count == 0) symbols->count = loaded_gnu_hash_count(target);
  }
  return symbols->symbols && symbols->strings;
}

const Elf64_Sym *onstack_loaded_symbols_find(const onstack_loaded_symbols *symbols, const char *name, uint8_t type) {
  for (uint64_t i = 0; i < symbols->count; i++) {
    const Elf64_Sym *symbol = &symbols->symbols[i];
    if (symbol->st_shndx == SHN_UNDEF || (type != STT_NOTYPE && ELF64_ST_TYPE(symbol->st_info) != type)) continue;
    if (strcmp(symbols->strings + symbol->st_name, name) == 0) return symbol;
  }
  return NULL;
}
#endif
