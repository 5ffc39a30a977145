/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/allocator.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static Dl_info allocator_place(const void *address) {
  Dl_info place = {0};
  if (dladdr(address, &place) == 0) place.dli_fbase = NULL;
  return place;
}

/* Whether the symbol at an address is a definition. Where nobody can tell (musl has no dladdr1), it is taken for one. */
static bool allocator_is_definition(const void *address) {
  int (*find)(const void *, Dl_info *, void **, int);
  *(void **)&find = dlsym(RTLD_DEFAULT, "dladdr1");
  void *symbol = NULL;
  Dl_info place;
  if (!find || find(address, &place, &symbol, 1 /* RTLD_DL_SYMENT */) == 0 || !symbol) return true;
  return ((const ElfW(Sym) *)symbol)->st_shndx != SHN_UNDEF;
}

/* Whether the library there defines malloc: its own scope comes first in a look-up by its handle. */
static bool allocator_defines(const char *name, const void *inside, Dl_info *place) {
  void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return false;
  *place = allocator_place(dlsym(handle, "malloc"));
  dlclose(handle);
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
  void *program = allocator_is_definition(address) ? NULL : dlopen(NULL, RTLD_LAZY);
  struct link_map *map = NULL;
  if (!program) return place;
  if (dlinfo(program, RTLD_DI_LINKMAP, &map) != 0) map = NULL;
  dlclose(program);
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
  return (called.dli_fbase == allocator_ours() ? allocator_place(dlsym(RTLD_NEXT, "malloc")) : called).dli_fbase == libc;
}

static void allocator_tell(const char *function, const Dl_info *place, onstack_writer writer, void *data) {
  char line[512];
  int length = snprintf(line, sizeof(line), "onstack.unseen function=%s path=%.400s", function, place->dli_fname);
  for (int i = 0; i < length; i++)
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) line[i] = '?';
  line[length++] = '\n';
  writer(data, line, (size_t)length);
}

void onstack_allocator_unseen(onstack_writer writer, void *data) {
  static const char *const names[] = {"je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc"};
  const void *address = dlsym(RTLD_DEFAULT, "_Znwm");
  Dl_info place = allocator_place(address), with;
  /* That of C++ libraries calls malloc. Who has a malloc as well need not. */
  if (place.dli_fbase && allocator_defines(place.dli_fname, address, &with))
    allocator_tell("operator new", &place, writer, data);
  for (size_t i = 0; i < ONSTACK_COUNT_OF(names); i++) {
    place = allocator_place(dlsym(RTLD_DEFAULT, names[i]));
    if (place.dli_fbase) allocator_tell(names[i], &place, writer, data);
  }
}
