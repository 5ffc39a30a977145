/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exec: the process goes on under the same id as another program, and what was sampled so far would be gone. So the
 * profile is written first, while sampling goes on: an exec that fails (a search along PATH) has disturbed nothing. The
 * new program writes its own profile under the same name at its end, over the former one if it samples at all.
 * Everything here may run in the child of vfork or in a signal handler: no allocation but the stack's and the kernel's.
 */
#include "preload/lifecycle.h"
#include "preload/next.h"

#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

typedef int (*interpose_exec)(const char *, char *const[], char *const[]);

static char *const interpose_none[] = {NULL}; /* what Linux takes NULL for */

static int interpose_call(onstack_next_name name, const char *file, char *const argv[], char *const envp[]) {
  interpose_exec next = (interpose_exec)onstack_next(name);
  if (!next) return errno = ENOSYS, -1;
  if (!envp) envp = interpose_none;
  char *const *environment = onstack_lifecycle_before_exec(envp);
  int result = next(file, argv, environment);
  onstack_lifecycle_failed_exec(envp, environment);
  return result;
}

ONSTACK_PRELOAD_API int execve(const char *path, char *const argv[], char *const envp[]) {
  return interpose_call(ONSTACK_NEXT_EXECVE, path, argv, envp);
}

ONSTACK_PRELOAD_API int execv(const char *path, char *const argv[]) {
  return interpose_call(ONSTACK_NEXT_EXECVE, path, argv, environ);
}

ONSTACK_PRELOAD_API int execvpe(const char *file, char *const argv[], char *const envp[]) {
  return interpose_call(ONSTACK_NEXT_EXECVPE, file, argv, envp);
}

ONSTACK_PRELOAD_API int execvp(const char *file, char *const argv[]) {
  return interpose_call(ONSTACK_NEXT_EXECVPE, file, argv, environ);
}

/* With the NULL at the end. */
static size_t interpose_count(const char *first, va_list given) {
  va_list arguments;
  size_t count = 1;
  va_copy(arguments, given);
  for (; first; count++) first = va_arg(arguments, const char *);
  va_end(arguments);
  return count;
}

/* Leaves `arguments` behind the NULL, where execle has its environment. */
static void interpose_list(const char *first, va_list *arguments, char **argv) {
  *argv = (char *)(uintptr_t)first;
  while (*argv) *++argv = va_arg(*arguments, char *);
}

ONSTACK_PRELOAD_API int execl(const char *path, const char *argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  char **argv = alloca(interpose_count(argument, arguments) * sizeof(*argv));
  interpose_list(argument, &arguments, argv);
  va_end(arguments);
  return interpose_call(ONSTACK_NEXT_EXECVE, path, argv, environ);
}

ONSTACK_PRELOAD_API int execlp(const char *file, const char *argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  char **argv = alloca(interpose_count(argument, arguments) * sizeof(*argv));
  interpose_list(argument, &arguments, argv);
  va_end(arguments);
  return interpose_call(ONSTACK_NEXT_EXECVPE, file, argv, environ);
}

ONSTACK_PRELOAD_API int execle(const char *path, const char *argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  char **argv = alloca(interpose_count(argument, arguments) * sizeof(*argv));
  interpose_list(argument, &arguments, argv);
  char *const *envp = va_arg(arguments, char *const *);
  va_end(arguments);
  return interpose_call(ONSTACK_NEXT_EXECVE, path, argv, envp);
}

ONSTACK_PRELOAD_API int fexecve(int file, char *const argv[], char *const envp[]) {
  int (*next)(int, char *const[], char *const[]) =
      (int (*)(int, char *const[], char *const[]))onstack_next(ONSTACK_NEXT_FEXECVE);
  if (!next) return errno = ENOSYS, -1;
  if (!envp) envp = interpose_none;
  char *const *environment = onstack_lifecycle_before_exec(envp);
  int result = next(file, argv, environment);
  onstack_lifecycle_failed_exec(envp, environment);
  return result;
}
