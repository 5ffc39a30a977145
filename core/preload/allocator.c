/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/allocator.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static Dl_info allocator_place(const void *address) {
  Dl_info place = {0};
  if (dladdr(address, &place) == 0) place.dli_fbase = NULL;
  return place;
}

/* As a call of it is bound in any library. */
static Dl_info allocator_called(void) { return allocator_place((const void *)(uintptr_t)malloc); }

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
