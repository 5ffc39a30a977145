/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that defines functions of libc itself. Each calls the next library's function of another name for the same work,
 * as Erlang's virtual machine does with sigaction and __sigaction. Link it with -rdynamic.
 * Usage: own_names sigaction|fstatat|exec|realloc|aligned. Prints what the function returned.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) exit(90);
  return found;
}

int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  int (*below)(int, const struct sigaction *, struct sigaction *);
  *(void **)&below = next("__sigaction");
  return below(signal, action, old);
}

int fstatat(int directory, const char *path, struct stat *there, int flags) {
  int (*below)(int, const char *, struct stat *, int);
  *(void **)&below = next("fstatat64");
  return below(directory, path, there, flags);
}

int execv(const char *path, char *const arguments[]) {
  int (*below)(const char *, const char *, ...);
  *(void **)&below = next("execl");
  return below(path, arguments[0], arguments[1], (char *)NULL);
}

void *realloc(void *from, size_t size) {
  void *(*below)(void *, size_t, size_t);
  *(void **)&below = next("reallocarray");
  return below(from, 1, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  void *(*below)(size_t);
  *(void **)&below = next("valloc");
  return alignment <= 4096 && (*out = below(size)) ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *kind = argc == 2 ? argv[1] : "";
  struct sigaction action;
  struct stat there;
  void *block = NULL;
  if (strcmp(kind, "sigaction") == 0) return printf("%d\n", sigaction(SIGUSR1, NULL, &action)) < 0;
  if (strcmp(kind, "fstatat") == 0) return printf("%d\n", fstatat(AT_FDCWD, "/", &there, 0)) < 0;
  if (strcmp(kind, "exec") == 0) return execv("/bin/echo", (char *[]){"echo", "0", NULL});
  if (strcmp(kind, "realloc") == 0) return printf("%d\n", !realloc(malloc(1), 1 << 20)) < 0;
  if (strcmp(kind, "aligned") == 0) return printf("%d\n", posix_memalign(&block, 64, 1000)) < 0;
  return 99;
}
