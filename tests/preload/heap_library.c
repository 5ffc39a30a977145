/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library to be preloaded beside: it allocates in its constructor and destructor, and while the loader looks names up, as the
   dlsym of older C libraries does. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept[3];
static int looked_up;

static void check(int right) {
  if (!right) abort();
}

/* What its caller asks for comes from its own next libraries; those of this library's are behind it, so libc's. */
void *dlsym(void *handle, const char *name) {
  char *block = calloc(1, 50), *volatile other;
  for (int i = 0; i < 50; i++) check(block[i] == 0);
  memset(block, 1, 50);
  block = realloc(block, 5000);
  check(block && block[49] == 1 && malloc_usable_size(block) >= 5000);
  other = malloc(10);
  free(other);
  if (looked_up++ == 0)
    kept[0] = block; /* freed when the look-up is over */
  else
    free(block);
  void *found = dlvsym(handle, name, "GLIBC_2.2.5");
  return found ? found : dlvsym(handle, name, "GLIBC_2.16"); /* aligned_alloc */
}

__attribute__((constructor)) static void library_begins(void) {
  kept[1] = malloc(3000);
  kept[2] = realloc(calloc(10, 10), 2000);
  memset(kept[1], 2, 3000);
  free(malloc(100));
}

__attribute__((destructor)) static void library_ends(void) {
  check(!kept[0] || (malloc_usable_size(kept[0]) >= 5000 && ((char *)kept[0])[49] == 1));
  kept[0] = realloc(kept[0], 100);
  check(((char *)kept[1])[2999] == 2);
  for (int i = 0; i < 3; i++) free(kept[i]);
  fprintf(stderr, "library: %s\n", looked_up ? "names were looked up" : "nothing was looked up");
}
