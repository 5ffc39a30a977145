/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/allocator.h"

#include "platform/elf_file.h"
#include "profile/elf/elf_symbols.h"
#include "platform/loader.h"
#include "platform/proc.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocators that were linked into a program or a library under names of their own, which are not exported: jemalloc and
   mimalloc in Rust programs, DuckDB's. */
#define HIDDEN_NAME 64u
#define HIDDEN_BLOCK 65536u
#define HIDDEN_NAMES 8u /* of a file; more are not looked at */

typedef struct hidden_search {
  uint32_t count;
  uint32_t starts[HIDDEN_NAMES]; /* of the names in their section */
  char names[HIDDEN_NAMES][HIDDEN_NAME];
  const char *found;
} hidden_search;

/* "je_malloc", with a prefix or without. A Rust program has none of mimalloc's functions but those that it calls. */
static bool hidden_is_allocator(const char *name, size_t length) {
  static const char *const ends[] = {"rjem_malloc", "je_malloc", "mi_malloc", "mi_malloc_aligned", "tc_malloc"};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(ends); i++) {
    const size_t end = strlen(ends[i]);
    if (length >= end && memcmp(name + length - end, ends[i], end) == 0)
      return length == end || name[length - end - 1] == '_';
  }
  return false;
}

/* The names in `bytes`, which begin at a name; a whole one has its NUL there. Returns what is left behind the last NUL. */
static size_t hidden_look_at(hidden_search *search, const char *bytes, size_t count, uint64_t offset) {
  size_t at = 0;
  for (const char *end; at < count && (end = memchr(bytes + at, '\0', count - at)); at = (size_t)(end - bytes) + 1) {
    const size_t length = (size_t)(end - bytes) - at;
    if (length >= HIDDEN_NAME || search->count == HIDDEN_NAMES || !hidden_is_allocator(bytes + at, length)) continue;
    memcpy(search->names[search->count], bytes + at, length + 1);
    search->starts[search->count++] = (uint32_t)(offset + at);
  }
  return count - at;
}

static void hidden_look_for_names(hidden_search *search, const onstack_elf_file *file, const onstack_elf_section *names) {
  char *block = malloc(HIDDEN_BLOCK);
  size_t left = 0;
  for (uint64_t at = 0; block && at < names->bytes;) {
    const uint64_t rest = names->bytes - at, room = HIDDEN_BLOCK - left;
    const size_t some = (size_t)(rest < room ? rest : room);
    if (!onstack_elf_read(file, names->offset + at, block + left, some)) break;
    const size_t count = left + some;
    left = hidden_look_at(search, block, count, at - left);
    at += some;
    /* A name that is longer than a block is none of those that are looked for. */
    if (left == HIDDEN_BLOCK) left = 0;
    memmove(block, block + count - left, left);
  }
  free(block);
}

/* What the table names may be another's, which is only called here. */
static bool hidden_visit(void *data, const onstack_elf_symbol *symbol) {
  hidden_search *search = data;
  for (uint32_t i = 0; i < search->count && symbol->section != 0 && !search->found; i++)
    if (search->starts[i] == symbol->name) search->found = search->names[i];
  return !search->found;
}

/* The first such malloc in a file's symbol table ("_rjem_malloc"). False: it has none, or no symbol table. Ordinary threads;
   streams past the names, which of a large program takes milliseconds. */
static bool hidden_find(const char *path, char name[HIDDEN_NAME]) {
  onstack_elf_file file;
  hidden_search search = {.count = 0};
  if (onstack_elf_open_file(&file, path) != 0) return false;
  const onstack_elf_section *table = onstack_elf_symbols_table(&file, ONSTACK_ELF_SECTION_SYMTAB);
  if (table) hidden_look_for_names(&search, &file, &file.sections[table->link]);
  if (search.count > 0) onstack_elf_symbols_each(&file, table, hidden_visit, &search);
  onstack_elf_close(&file);
  if (search.found) strcpy(name, search.found);
  return search.found;
}

#define ALLOCATOR_OBJECTS 512u

static Dl_info allocator_place(const void *address) {
  Dl_info place = {0};
  onstack_loader_enter();
  if (dladdr(address, &place) == 0) place.dli_fbase = NULL;
  onstack_loader_leave();
  return place;
}

static void *allocator_find(void *handle, const char *name) {
  onstack_loader_enter();
  void *found = dlsym(handle, name);
  onstack_loader_leave();
  return found;
}

static void *allocator_open(const char *name, int how) {
  onstack_loader_enter();
  void *handle = dlopen(name, how);
  onstack_loader_leave();
  return handle;
}

static void allocator_close(void *handle) {
  onstack_loader_enter();
  dlclose(handle);
  onstack_loader_leave();
}

/* Whether the symbol at an address is a definition. Where nobody can tell (musl has no dladdr1), it is taken for one. */
static bool allocator_is_definition(const void *address) {
  int (*find)(const void *, Dl_info *, void **, int);
  *(void **)&find = allocator_find(RTLD_DEFAULT, "dladdr1");
  void *symbol = NULL;
  Dl_info place;
  if (!find || find(address, &place, &symbol, 1 /* RTLD_DL_SYMENT */) == 0 || !symbol) return true;
  return ((const ElfW(Sym) *)symbol)->st_shndx != SHN_UNDEF;
}

/* Whether the library there defines malloc: its own scope comes first in a look-up by its handle. */
static bool allocator_defines(const char *name, const void *inside, Dl_info *place) {
  void *handle = allocator_open(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return false;
  *place = allocator_place(allocator_find(handle, "malloc"));
  allocator_close(handle);
  return place->dli_fbase && place->dli_fbase == allocator_place(inside).dli_fbase;
}

/*
 * As a call of it is bound in any library. A program that is not position-independent and takes malloc's address has an address
 * for it in its own PLT, which all take for malloc's, and which is nobody's definition (System V ABI, function addresses):
 * what comes behind the program, in the loader's order, says where calls lead.
 */
static Dl_info allocator_called(void) {
  const void *address = (const void *)(uintptr_t)malloc;
  Dl_info place = allocator_place(address);
  void *program = allocator_is_definition(address) ? NULL : allocator_open(NULL, RTLD_LAZY);
  struct link_map *map = NULL;
  if (!program) return place;
  if (dlinfo(program, RTLD_DI_LINKMAP, &map) != 0) map = NULL;
  allocator_close(program);
  for (map = map ? map->l_next : NULL; map; map = map->l_next)
    if (map->l_name && map->l_name[0] != '\0' && allocator_defines(map->l_name, map->l_ld, &place)) break;
  return place;
}

static void *allocator_ours(void) {
  static const char here;
  return allocator_place(&here).dli_fbase;
}

const char *onstack_allocator_before(void) {
  const Dl_info called = allocator_called();
  return called.dli_fbase && called.dli_fbase != allocator_ours() ? called.dli_fname : NULL;
}

bool onstack_allocator_is_libcs(void) {
  const void *libc = allocator_place((const void *)(uintptr_t)getpid).dli_fbase;
  const Dl_info called = allocator_called();
  return (called.dli_fbase == allocator_ours() ? allocator_place(allocator_find(RTLD_NEXT, "malloc")) : called).dli_fbase ==
         libc;
}

static void allocator_tell(const char *function, const char *path, onstack_writer writer, void *data) {
  char line[512];
  int length = snprintf(line, sizeof(line), "onstack.unseen function=%s path=%.400s", function, path);
  for (int i = 0; i < length; i++)
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) line[i] = '?';
  line[length++] = '\n';
  writer(data, line, (size_t)length);
}

/* Copies of the paths: to read the files in a visit would keep others from loading theirs. */
typedef struct allocator_paths {
  uint32_t count;
  char *items[ALLOCATOR_OBJECTS];
} allocator_paths;

static int allocator_add_path(struct dl_phdr_info *info, size_t size, void *data) {
  allocator_paths *paths = data;
  (void)size;
  if (paths->count == ALLOCATOR_OBJECTS) return 1;
  const bool program = !info->dlpi_name || !info->dlpi_name[0];
  if (program && paths->count > 0) return 0; /* the vdso */
  char *path = strdup(program ? onstack_own_executable() : info->dlpi_name);
  if (path) paths->items[paths->count++] = path;
  return 0;
}

/* Those that are exported are told already. */
static void allocator_tell_hidden(onstack_writer writer, void *data) {
  allocator_paths paths = {0};
  char name[HIDDEN_NAME], target[4096];
  onstack_loader_each(allocator_add_path, &paths);
  for (uint32_t i = 0; i < paths.count; i++) {
    const char *path = paths.items[i];
    if (hidden_find(path, name) && !allocator_find(RTLD_DEFAULT, name)) {
      const ssize_t length = readlink(path, target, sizeof(target) - 1);
      target[length > 0 ? length : 0] = 0;
      allocator_tell(name, length > 0 && path[1] == 'p' ? target : path, writer, data);
    }
    free(paths.items[i]);
  }
}

void onstack_allocator_unseen(onstack_writer writer, void *data) {
  static const char *const names[] = {"je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc"};
  const void *address = allocator_find(RTLD_DEFAULT, "_Znwm");
  Dl_info place = allocator_place(address), with;
  /* That of C++ libraries calls malloc. Who has a malloc as well need not. */
  if (place.dli_fbase && allocator_defines(place.dli_fname, address, &with))
    allocator_tell("operator new", place.dli_fname, writer, data);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(names); i++) {
    place = allocator_place(allocator_find(RTLD_DEFAULT, names[i]));
    if (place.dli_fbase) allocator_tell(names[i], place.dli_fname, writer, data);
  }
  allocator_tell_hidden(writer, data);
}
