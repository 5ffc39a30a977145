/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host that loads an interpreter's library, lets it go, and loads another: embed LIBRARY HOME PROGRAM..., as often as there
 * are three. The same library as before is not loaded anew, but begins again, with another pthread key.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (!address) fprintf(stderr, "%s: %s\n", name, dlerror());
  return address ? address : (exit(2), NULL);
}

static int life(void *library, const char *program) {
  void (*initialize)(int) = (void (*)(int))symbol(library, "Py_InitializeEx");
  int (*run)(const char *, void *) = (int (*)(const char *, void *))symbol(library, "PyRun_SimpleStringFlags");
  int (*finalize)(void) = (int (*)(void))symbol(library, "Py_FinalizeEx");
  *(int *)symbol(library, "Py_NoSiteFlag") = 1; /* what a site imports may not stand being imported twice in a process */
  initialize(0);
  const int failed = run(program, NULL);
  return finalize() || failed;
}

int main(int count, char **words) {
  void *library = NULL;
  for (int i = 1; i + 2 < count; i += 3) {
    if (i > 1 && strcmp(words[i], words[i - 3]) == 0) {
      pthread_key_t taken;
      pthread_key_create(&taken, NULL);
    } else {
      if (library) dlclose(library);
      library = dlopen(words[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    if (*words[i + 1])
      setenv("PYTHONHOME", words[i + 1], 1);
    else
      unsetenv("PYTHONHOME");
    if (life(library, words[i + 2])) return 1;
  }
  return 0;
}
