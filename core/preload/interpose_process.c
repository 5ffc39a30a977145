/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's calls that make a process, turn it into another program, or end it. */
#include "preload/first_ticks.h"
#include "preload/first_ticks_store.h"
#include "preload/lifecycle.h"
#include "preload/next.h"
#include "platform/sys.h"
#include "preload/keeper.h"

#include <errno.h>
#include <pty.h>
#include <unistd.h>
#include <alloca.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- fork ---- */

/*
 * Children that are to be profiled need a keeper, made when every handler of fork has run: so behind fork and behind the
 * functions of libc that fork inside. vfork is left alone (it returns twice); its children exec or end at once.
 */
typedef pid_t (*interpose_forkpty)(int *, char *, const struct termios *, const struct winsize *);

static int interpose_missing(void) {
  errno = ENOSYS;
  return -1;
}

ONSTACK_PRELOAD_API pid_t fork(void) {
  pid_t (*next)(void) = (pid_t(*)(void))onstack_next(ONSTACK_NEXT_FORK);
  pid_t child = next ? next() : interpose_missing();
  if (child == 0) onstack_lifecycle_forked();
  return child;
}

ONSTACK_PRELOAD_API pid_t forkpty(int *controller, char *name, const struct termios *modes, const struct winsize *size) {
  interpose_forkpty next = (interpose_forkpty)onstack_next(ONSTACK_NEXT_FORKPTY);
  pid_t child = next ? next(controller, name, modes, size) : interpose_missing();
  if (child == 0) onstack_lifecycle_forked();
  return child;
}

/* Its parent leaves by libc's own _exit, which cannot be seen, so its profile is written before. */
ONSTACK_PRELOAD_API int daemon(int keep_directory, int keep_files) {
  int (*next)(int, int) = (int (*)(int, int))onstack_next(ONSTACK_NEXT_DAEMON);
  onstack_lifecycle_save();
  /* Its parent collects nothing any more, and needs no session. */
  onstack_first_ticks_close();
  if (onstack_first_ticks_are_alone()) onstack_first_ticks_end();
  int result = next ? next(keep_directory, keep_files) : interpose_missing();
  onstack_lifecycle_forked();
  return result;
}

/* ---- exec ---- */

/*
 * The process goes on under the same id as another program, and what was sampled so far would be gone. So the
 * profile is written first, while sampling goes on: an exec that fails (a search along PATH) has disturbed nothing. The
 * new program writes its own profile under the same name at its end, over the former one if it samples at all.
 * Everything here may run in the child of vfork or in a signal handler: no allocation but the stack's and the kernel's.
 */

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

/* ---- the end ---- */

/*
 * Ends that run no destructor: _exit and abort. Calls inside libc (assert, a corrupted heap, the end of exit itself) and
 * the system call of a runtime that does without libc do not come by here; for these there is the keeper's last save.
 */

static _Noreturn void interpose_leave(onstack_next_name name, int status) {
  onstack_keeper_end(ONSTACK_LIFECYCLE_ABRUPT_SECONDS, true);
  void (*next)(int) = (void (*)(int))onstack_next(name);
  if (next) next(status);
  for (;;) onstack_sys_call1(SYS_exit_group, status);
}

ONSTACK_PRELOAD_API _Noreturn void _exit(int status) { interpose_leave(ONSTACK_NEXT_EXIT, status); }

ONSTACK_PRELOAD_API _Noreturn void _Exit(int status) { interpose_leave(ONSTACK_NEXT_EXIT_CAPITAL, status); }

/* Not the end: the host's handler of SIGABRT may jump out of it. */
ONSTACK_PRELOAD_API _Noreturn void abort(void) {
  onstack_keeper_save(ONSTACK_LIFECYCLE_ABRUPT_SECONDS);
  void (*next)(void) = onstack_next(ONSTACK_NEXT_ABORT);
  if (next) next();
  for (;;) onstack_sys_call1(SYS_exit_group, 134);
}
