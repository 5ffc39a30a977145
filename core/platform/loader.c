/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/loader.h"

#include "platform/atomics.h"

#ifdef __linux__
#include "platform/process.h"
#include "platform/sys.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

/* ---- program headers ---- */

void onstack_object_copy_headers(const struct dl_phdr_info *info, onstack_object_copy *copy) {
  const size_t wanted = info->dlpi_phnum < ONSTACK_OBJECT_HEADERS ? info->dlpi_phnum : ONSTACK_OBJECT_HEADERS;
  const size_t size = wanted * sizeof(copy->headers[0]);
  const size_t copied = onstack_process_memory_copy((uint64_t)(uintptr_t)info->dlpi_phdr, copy->headers, size);
  copy->info = *info;
  copy->info.dlpi_phdr = copy->headers;
  copy->info.dlpi_phnum = (ElfW(Half))(copied / sizeof(copy->headers[0]));
}

/* ---- numbers ---- */

#ifdef __GLIBC__
#define NUMBERS_WORDS 192u   /* of a link_map: glibc 2.17 to 2.41 have some 150 */
#define NUMBERS_PUBLIC 5u    /* words of it that <link.h> declares */
#define NUMBERS_OBJECTS 3u   /* that agree at least */
#define NUMBERS_DYNAMIC 128u /* entries of the program's dynamic section that are searched */

#define NUMBERS_LOADER 1u /* of the loader itself, which stays */

static uint32_t numbers_offset;  /* in words; 0: not found, or not searched for yet */
static uint32_t numbers_refused; /* the search has ended without one */

/* The head of the list, which debuggers find in the same way: by the program's DT_DEBUG. */
static const struct r_debug *numbers_list(void) {
  const uint64_t table = getauxval(AT_PHDR);
  struct dl_phdr_info program = {.dlpi_phdr = (const ElfW(Phdr) *)(uintptr_t)table,
                                 .dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM)};
  onstack_object_copy copy;
  ElfW(Dyn) entry;
  onstack_object_copy_headers(&program, &copy);
  for (uint32_t i = 0; i < copy.info.dlpi_phnum; i++)
    if (copy.headers[i].p_type == PT_PHDR) copy.info.dlpi_addr = table - copy.headers[i].p_vaddr;
  const uint64_t dynamic = onstack_object_segment(&copy.info, PT_DYNAMIC);
  for (uint32_t i = 0; dynamic && i < NUMBERS_DYNAMIC; i++) {
    if (!onstack_process_memory_read(dynamic + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_DEBUG) return (const struct r_debug *)(uintptr_t)entry.d_un.d_ptr;
  }
  return NULL;
}

static const struct link_map *numbers_head(void) {
  static const struct r_debug *list;
  static uint32_t searched;
  if (!onstack_observe(&searched)) {
    onstack_store_relaxed(&list, numbers_list());
    onstack_publish(&searched, 1u);
  }
  const struct r_debug *found = onstack_load_relaxed(&list);
  return found ? onstack_load_relaxed(&found->r_map) : NULL;
}

typedef struct numbers_search {
  const struct link_map *next;
  bool possible[NUMBERS_WORDS];
  uint64_t last[NUMBERS_WORDS]; /* the number of the object before, by offset */
  uint32_t objects, with_relro;
} numbers_search;

static bool numbers_is_listed(const struct link_map *map, const struct dl_phdr_info *info) {
  return map && map->l_addr == info->dlpi_addr && map->l_name == info->dlpi_name;
}

static const ElfW(Phdr) * numbers_relro(const onstack_object_copy *copy) {
  for (uint32_t i = 0; i < copy->info.dlpi_phnum; i++)
    if (copy->headers[i].p_type == PT_GNU_RELRO && copy->headers[i].p_vaddr != 0) return &copy->headers[i];
  return NULL;
}

static int numbers_visit(struct dl_phdr_info *info, size_t size, void *data) {
  numbers_search *search = data;
  const struct link_map *map = search->next;
  uint64_t words[NUMBERS_WORDS];
  onstack_object_copy copy;
  (void)size;
  if (!numbers_is_listed(map, info)) {
    memset(search->possible, 0, sizeof(search->possible));
    return 1;
  }
  search->next = map->l_next;
  if (info->dlpi_addr != 0 && info->dlpi_addr == getauxval(AT_BASE)) return 0;
  const size_t count = onstack_process_memory_copy((uint64_t)(uintptr_t)map, words, sizeof(words)) / sizeof(words[0]);
  onstack_object_copy_headers(info, &copy);
  const ElfW(Phdr) *relro = numbers_relro(&copy);
  for (uint32_t i = NUMBERS_PUBLIC + 2; i < NUMBERS_WORDS; i++) {
    if (i >= count || (relro && (words[i - 2] != relro->p_vaddr || words[i - 1] != relro->p_memsz)))
      search->possible[i] = false;
    if (!search->possible[i]) continue;
    const bool follows = search->objects == 0 ? words[i] == 0 : words[i] > search->last[i];
    search->possible[i] = follows && words[i] < info->dlpi_adds;
    search->last[i] = words[i];
  }
  search->objects++;
  search->with_relro += relro ? 1 : 0;
  return 0;
}

static void numbers_find(void) {
  numbers_search search = {.next = numbers_head()};
  uint32_t offset = 0, found = 0;
  for (uint32_t i = NUMBERS_PUBLIC + 2; i < NUMBERS_WORDS; i++) search.possible[i] = true;
  dl_iterate_phdr(numbers_visit, &search);
  for (uint32_t i = 0; i < NUMBERS_WORDS; i++) {
    if (search.possible[i]) offset = i;
    found += search.possible[i];
  }
  if (found == 1 && search.with_relro > 0 && search.objects >= NUMBERS_OBJECTS)
    onstack_store_relaxed(&numbers_offset, offset);
  else
    onstack_store_relaxed(&numbers_refused, 1u);
}

void onstack_load_walk_begin(onstack_load_walk *walk) {
  walk->next = NULL;
  if (onstack_load_relaxed(&numbers_refused)) return;
  if (onstack_load_relaxed(&numbers_offset) == 0) numbers_find();
  if (onstack_load_relaxed(&numbers_offset) != 0) walk->next = numbers_head();
}

uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info) {
  const struct link_map *map = walk->next;
  if (!numbers_is_listed(map, info)) {
    walk->next = NULL;
    return 0;
  }
  walk->next = map->l_next;
  if (info->dlpi_addr != 0 && info->dlpi_addr == getauxval(AT_BASE)) return NUMBERS_LOADER;
  return ONSTACK_LOAD_FIRST + ((const uint64_t *)(const void *)map)[onstack_load_relaxed(&numbers_offset)];
}
#else
void onstack_load_walk_begin(onstack_load_walk *walk) { walk->next = NULL; }

uint64_t onstack_load_walk_step(onstack_load_walk *walk, const struct dl_phdr_info *info) {
  (void)walk, (void)info;
  return 0;
}
#endif

/* ---- symbols ---- */

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

/* ---- the list ---- */

#define LOADER_PAUSE_NS 50000u
#define LOADER_PAUSES 2000u /* at least 0.1 s */

static uint32_t loader_inside; /* threads of ours in a call (dekker) */
static uint32_t loader_forks;  /* threads that are about to fork, or do (dekker) */
static uint32_t loader_lost;   /* its lock is held by a thread that is not in this process */

static void loader_wait_for_none(const uint32_t *word) {
  for (uint32_t i = 0; i < LOADER_PAUSES && onstack_dekker_load(word) > 0; i++) onstack_sys_sleep(LOADER_PAUSE_NS);
}

/* Each side raises its own word before it looks at the other's, so one of the two sees the other. */
void onstack_loader_enter(void) {
  onstack_dekker_add(&loader_inside, 1u);
  if (onstack_dekker_load(&loader_forks) == 0) return;
  onstack_dekker_sub(&loader_inside, 1u);
  loader_wait_for_none(&loader_forks);
  onstack_dekker_add(&loader_inside, 1u);
}

void onstack_loader_leave(void) { onstack_dekker_sub(&loader_inside, 1u); }

void onstack_loader_before_fork(void) {
  onstack_dekker_add(&loader_forks, 1u);
  loader_wait_for_none(&loader_inside);
}

void onstack_loader_forked(void) { onstack_dekker_sub(&loader_forks, 1u); }

void onstack_loader_after_fork(void) {
  onstack_store_relaxed(&loader_forks, 0u);
  if (onstack_load_relaxed(&loader_inside) == 0) return;
  onstack_store_relaxed(&loader_lost, 1u);
  onstack_store_relaxed(&loader_inside, 0u);
}

/* False, and no visit, where the loader cannot be asked. */
static bool loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
  if (onstack_load_relaxed(&loader_lost)) return false;
  onstack_loader_enter();
  dl_iterate_phdr(visit, data);
  onstack_loader_leave();
  return true;
}

typedef struct loader_visitor {
  int (*visit)(struct dl_phdr_info *info, size_t size, void *data);
  int (*visit_load)(const struct dl_phdr_info *info, uint64_t number, void *data);
  void *data;
  onstack_load_walk walk;
} loader_visitor;

static int loader_visit_copy(struct dl_phdr_info *info, size_t size, void *data) {
  const loader_visitor *visitor = data;
  onstack_object_copy copy;
  onstack_object_copy_headers(info, &copy);
  return visitor->visit(&copy.info, size, visitor->data);
}

bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
  loader_visitor visitor = {.visit = visit, .data = data};
  return loader_iterate(loader_visit_copy, &visitor);
}

static int loader_visit_load(struct dl_phdr_info *info, size_t size, void *data) {
  loader_visitor *visitor = data;
  (void)size;
  return visitor->visit_load(info, onstack_load_walk_step(&visitor->walk, info), visitor->data);
}

bool onstack_loader_each_load(int (*visit)(const struct dl_phdr_info *info, uint64_t number, void *data), void *data) {
  loader_visitor visitor = {.visit_load = visit, .data = data};
  if (onstack_load_relaxed(&loader_lost)) return false;
  onstack_loader_enter();
  onstack_load_walk_begin(&visitor.walk);
  dl_iterate_phdr(loader_visit_load, &visitor);
  onstack_loader_leave();
  return true;
}

static int loader_read_counts(struct dl_phdr_info *info, size_t size, void *counts) {
  (void)size;
  *(onstack_loader_counts *)counts = onstack_loader_counts_in(info);
  return 1; /* the first one knows */
}

bool onstack_loader_count(onstack_loader_counts *counts) { return loader_iterate(loader_read_counts, counts); }

/* ---- pinning ---- */

/* Weak: in a static program there is no dynamic linker to ask, and nothing that could be closed. */
#pragma weak dlopen
#pragma weak dladdr

void onstack_pin_self(void) {
  static bool pinned;
  Dl_info info;
  if (pinned || !dlopen || !dladdr) return;
  pinned = true;
  onstack_loader_enter();
  if (dladdr((const void *)(uintptr_t)onstack_pin_self, &info) && info.dli_fname)
    dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY); /* fails for the main program: never closed */
  onstack_loader_leave();
}
#else
bool onstack_loader_count(onstack_loader_counts *counts) {
  (void)counts;
  return false;
}
#endif
