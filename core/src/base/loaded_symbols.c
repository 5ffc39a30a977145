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
  *symbols = (onstack_loaded_symbols){NULL, NULL, 0, NULL};
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    const void *target = loaded_target(dynamic->d_un.d_ptr, bias);
    if (dynamic->d_tag == DT_SYMTAB) symbols->symbols = target;
    if (dynamic->d_tag == DT_STRTAB) symbols->strings = target;
    if (dynamic->d_tag == DT_HASH) symbols->count = ((const uint32_t *)target)[1];
    if (dynamic->d_tag == DT_GNU_HASH) symbols->gnu_hash = target;
    if (dynamic->d_tag == DT_GNU_HASH && symbols->count == 0) symbols->count = loaded_gnu_hash_count(target);
  }
  return symbols->symbols && symbols->strings;
}

static bool loaded_is(const onstack_loaded_symbols *symbols, const Elf64_Sym *symbol, const char *name, uint8_t type) {
  if (symbol->st_shndx == SHN_UNDEF || (type != STT_NOTYPE && ELF64_ST_TYPE(symbol->st_info) != type)) return false;
  return strcmp(symbols->strings + symbol->st_name, name) == 0;
}

/* A filter of 64-bit words, buckets, and chains of hashes whose lowest bit marks the last one. */
static const Elf64_Sym *loaded_find_hashed(const onstack_loaded_symbols *symbols, const char *name, uint8_t type) {
  const uint32_t *table = symbols->gnu_hash;
  const uint32_t bucket_count = table[0], offset = table[1], filter_count = table[2], shift = table[3];
  const uint64_t *filter = (const uint64_t *)(const void *)(table + 4);
  const uint32_t *buckets = table + 4 + (size_t)filter_count * 2, *chains = buckets + bucket_count;
  uint32_t hash = 5381;
  for (const char *at = name; *at; at++) hash = hash * 33 + (uint8_t)*at;
  if (bucket_count == 0 || filter_count == 0) return NULL;
  const uint64_t bits = (uint64_t)1 << hash % 64 | (uint64_t)1 << (hash >> shift) % 64;
  if ((filter[hash / 64 % filter_count] & bits) != bits) return NULL;
  for (uint32_t i = buckets[hash % bucket_count]; i >= offset; i++) {
    const uint32_t other = chains[i - offset];
    if ((other | 1) == (hash | 1) && loaded_is(symbols, &symbols->symbols[i], name, type)) return &symbols->symbols[i];
    if (other & 1) break;
  }
  return NULL;
}

const Elf64_Sym *onstack_loaded_symbols_find(const onstack_loaded_symbols *symbols, const char *name, uint8_t type) {
  if (symbols->gnu_hash) return loaded_find_hashed(symbols, name, type);
  for (uint64_t i = 0; i < symbols->count; i++)
    if (loaded_is(symbols, &symbols->symbols[i], name, type)) return &symbols->symbols[i];
  return NULL;
}

typedef struct loaded_relocations {
  const Elf64_Rela *entries;
  uint64_t bytes;
} loaded_relocations;

static bool loaded_refers(const onstack_loaded_symbols *symbols, const loaded_relocations *relocations, const char *name) {
  for (uint64_t i = 0; i < relocations->bytes / sizeof(Elf64_Rela); i++) {
    const uint64_t index = ELF64_R_SYM(relocations->entries[i].r_info);
    if (index != 0 && strcmp(symbols->strings + symbols->symbols[index].st_name, name) == 0) return true;
  }
  return false;
}

/* A table of symbols has no length where nothing is exported; what is asked for has a relocation. */
bool onstack_loaded_symbols_wants(const Elf64_Dyn *dynamic, uint64_t bias, const char *name) {
  loaded_relocations calls = {NULL, 0}, data = {NULL, 0};
  onstack_loaded_symbols symbols;
  if (!onstack_loaded_symbols_read(dynamic, bias, &symbols)) return false;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_JMPREL) calls.entries = loaded_target(dynamic->d_un.d_ptr, bias);
    if (dynamic->d_tag == DT_PLTRELSZ) calls.bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_RELA) data.entries = loaded_target(dynamic->d_un.d_ptr, bias);
    if (dynamic->d_tag == DT_RELASZ) data.bytes = dynamic->d_un.d_val;
  }
  return (calls.entries && loaded_refers(&symbols, &calls, name)) || (data.entries && loaded_refers(&symbols, &data, name));
}
#endif
