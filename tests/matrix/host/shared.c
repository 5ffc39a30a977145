/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program that opens Go as a c-shared library, which lies beside it. */
#include "go_calls.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

/* POSIX asks for this detour: ISO C has no way from an object pointer to a function pointer. */
static void find(void *function, const char *name) {
  void *address = dlsym(library, name);
  if (!address) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  memcpy(function, &address, sizeof(address));
}

static void open_beside_program(const char *name) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - strlen(name) - 2);
  if (length < 0) exit(2);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, name);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
}

int main(int argc, char **argv) {
  go_calls calls;
  open_beside_program("libmatrixgo.so");
  find(&calls.profile_start, "matrixGoProfileStart");
  find(&calls.profile_stop, "matrixGoProfileStop");
  find(&calls.external, "matrixGoExternal");
  find(&calls.load_start, "matrixGoLoadStart");
  find(&calls.load_stop, "matrixGoLoadStop");
  find(&calls.health, "matrixGoHealth");
  find(&calls.spin, "matrixGoSpin");
  return matrix_go_main(argc, argv, &calls);
}
