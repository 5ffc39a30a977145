/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/loaded_symbols.h"

#ifdef __linux__
#include "platform/process_memory.h"

#include <string.h>

#define LOADED_DYNAMIC 512u   /* entries of a dynamic section; linkers write about thirty */
#define LOADED_CHUNK 64u      /* elements of a table that are read at once */
#define LOADED_NAME 64u       /* bytes of a name that is searched for */
#define LOADED_CHAIN 1000000u /* symbols of one hash chain: a broken table may go round */

/* glibc has added the bias to what it needs itself; musl and the kernel have not. */
static uint64_t loaded_target(uint64_t address, uint64_t bias) { return address < bias ? bias + address : address; }

static void loaded_note(const Elf64_Dyn *entry, uint64_t bias, onstack_loaded_symbols *symbols) {
  const uint64_t target = loaded_target(entry->d_un.d_ptr, bias);
  switch (entry->d_tag) {
  case DT_SYMTAB:
    symbols->symbols = target;
    break;
  case DT_STRTAB:
    symbols->strings = target;
    break;
  case DT_HASH:
    symbols->hash = target;
    break;
  case DT_GNU_HASH:
    symbols->gnu_hash = target;
    break;
  case DT_JMPREL:
    symbols->calls = target;
    break;
  case DT_PLTRELSZ:
    symbols->calls_bytes = entry->d_un.d_val;
    break;
  case DT_RELA:
    symbols->data = target;
    break;
  case DT_RELASZ:
    symbols->data_bytes = entry->d_un.d_val;
    break;
  default:
    break;
  }
}

bool onstack_loaded_symbols_read(uint64_t dynamic, uint64_t bias, onstack_loaded_symbols *symbols) {
  Elf64_Dyn entries[LOADED_CHUNK];
  *symbols = (onstack_loaded_symbols){0};
  for (uint32_t at = 0; at < LOADED_DYNAMIC; at += LOADED_CHUNK) {
    const size_t copied = onstack_process_memory_copy(dynamic + at * sizeof(entries[0]), entries, sizeof(entries));
    const size_t count = copied / sizeof(entries[0]);
    size_t i = 0;
    for (; i < count && entries[i].d_tag != DT_NULL; i++) loaded_note(&entries[i], bias, symbols);
    if (i < LOADED_CHUNK) break;
  }
  return symbols->symbols && symbols->strings;
}

static bool loaded_is_named(const onstack_loaded_symbols *symbols, const Elf64_Sym *symbol, const char *name) {
  char there[LOADED_NAME];
  const size_t size = strlen(name) + 1;
  return size <= sizeof(there) && onstack_process_memory_read(symbols->strings + symbol->st_name, there, size) &&
         memcmp(there, name, size) == 0;
}

static bool loaded_is(const onstack_loaded_symbols *symbols, const Elf64_Sym *symbol, const char *name, uint8_t type) {
  if (symbol->st_shndx == SHN_UNDEF || (type != STT_NOTYPE && ELF64_ST_TYPE(symbol->st_info) != type)) return false;
  return loaded_is_named(symbols, symbol, name);
}

/* A filter of 64-bit words, buckets, and chains of hashes whose lowest bit marks the last one. */
static bool loaded_find_hashed(const onstack_loaded_symbols *symbols, const char *name, uint8_t type, Elf64_Sym *found) {
  uint32_t head[4], index, other = 0; /* buckets, the first symbol that is hashed, words of the filter, its shift */
  uint64_t word;
  uint32_t hash = 5381;
  for (const char *at = name; *at; at++) hash = hash * 33 + (uint8_t)*at;
  if (!onstack_process_memory_read(symbols->gnu_hash, head, sizeof(head)) || head[0] == 0 || head[2] == 0) return false;
  const uint64_t filter = symbols->gnu_hash + sizeof(head), buckets = filter + head[2] * sizeof(word),
                 chains = buckets + (uint64_t)head[0] * sizeof(uint32_t);
  const uint64_t bits = (uint64_t)1 << hash % 64 | (uint64_t)1 << (hash >> head[3] % 32) % 64;
  if (!onstack_process_memory_read(filter + hash / 64 % head[2] * sizeof(word), &word, sizeof(word))) return false;
  if ((word & bits) != bits) return false;
  if (!onstack_process_memory_read(buckets + hash % head[0] * sizeof(index), &index, sizeof(index))) return false;
  for (uint32_t i = 0; index >= head[1] && i < LOADED_CHAIN && !(other & 1); i++, index++) {
    if (!onstack_process_memory_read(chains + (index - head[1]) * sizeof(other), &other, sizeof(other))) return false;
    if ((other | 1) != (hash | 1)) continue;
    if (!onstack_process_memory_read(symbols->symbols + index * sizeof(*found), found, sizeof(*found))) return false;
    if (loaded_is(symbols, found, name, type)) return true;
  }
  return false;
}

/* The first of `count` symbols that `is` accepts, by chunks. */
static bool loaded_find_in_order(const onstack_loaded_symbols *symbols, uint64_t count, const char *name, uint8_t type,
                                 bool undefined, Elf64_Sym *found) {
  Elf64_Sym chunk[LOADED_CHUNK];
  for (uint64_t at = 0; at < count; at += LOADED_CHUNK) {
    const uint64_t wanted = count - at < LOADED_CHUNK ? count - at : LOADED_CHUNK;
    const size_t bytes = (size_t)wanted * sizeof(chunk[0]);
    if (!onstack_process_memory_read(symbols->symbols + at * sizeof(chunk[0]), chunk, bytes)) return false;
    for (uint64_t i = 0; i < wanted; i++) {
      *found = chunk[i];
      const bool is = !undefined
                          ? loaded_is(symbols, found, name, type)
                          : found->st_shndx == SHN_UNDEF && found->st_name != 0 && loaded_is_named(symbols, found, name);
      if (is) return true;
    }
  }
  return false;
}

bool onstack_loaded_symbols_find(const onstack_loaded_symbols *symbols, const char *name, uint8_t type, Elf64_Sym *found) {
  uint32_t head[2]; /* buckets, symbols */
  if (symbols->gnu_hash) return loaded_find_hashed(symbols, name, type, found);
  if (!symbols->hash || !onstack_process_memory_read(symbols->hash, head, sizeof(head))) return false;
  return loaded_find_in_order(symbols, head[1], name, type, false, found);
}

/* One more than the highest symbol that a table of relocations names, and at least `least`. */
static uint64_t loaded_count_related(uint64_t table, uint64_t bytes, uint64_t least) {
  Elf64_Rela chunk[LOADED_CHUNK];
  for (uint64_t at = 0; table && at < bytes; at += sizeof(chunk)) {
    const size_t wanted = bytes - at < sizeof(chunk) ? (size_t)(bytes - at) : sizeof(chunk);
    const size_t count = onstack_process_memory_copy(table + at, chunk, wanted) / sizeof(chunk[0]);
    for (size_t i = 0; i < count; i++)
      if (ELF64_R_SYM(chunk[i].r_info) >= least) least = ELF64_R_SYM(chunk[i].r_info) + 1;
    if (count < LOADED_CHUNK) break;
  }
  return least;
}

/* A table of symbols has no length where nothing is exported; what is asked for has a relocation. */
bool onstack_loaded_symbols_wants(uint64_t dynamic, uint64_t bias, const char *name) {
  onstack_loaded_symbols symbols;
  Elf64_Sym found;
  if (!onstack_loaded_symbols_read(dynamic, bias, &symbols)) return false;
  uint64_t count = loaded_count_related(symbols.calls, symbols.calls_bytes, 0);
  count = loaded_count_related(symbols.data, symbols.data_bytes, count);
  return loaded_find_in_order(&symbols, count, name, STT_NOTYPE, true, &found);
}
#endif
