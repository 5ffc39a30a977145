/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's calls that make a process, turn it into another program, or end it. */
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"
#include "preload/first_ticks.h"
#include "preload/keeper.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

#include <alloca.h>
#include <errno.h>
#include <pty.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/*
 * A host that must be single-threaded at some moment, and makes sure of it: the process that Chromium, and what is built on
 * it, forks its children from looks at the links of /proc/self/task, and ends itself when there are more than its own
 * thread's. It asks about threads of its own, so ours are left out of the count.
 */

#define COUNT_WAIT_NS 20000000u /* for a thread of ours that is not made yet, or has just ended and is listed still */
#define COUNT_PAUSE_NS 500000
#define COUNT_LINKS_ALONE 3 /* ".", ".." and one thread */

typedef struct count_question {
  onstack_next_name name;
  int version; /* of struct stat, for the functions of glibc before 2.33 */
  int directory;
  const char *path;
  struct stat *there;
  int flags;
} count_question;

static int count_ask(const count_question *asked) {
  typedef int (*stat_at)(int, const char *, struct stat *, int);
  typedef int (*stat_of_version)(int, int, const char *, struct stat *, int);
  void (*next)(void) = onstack_next(asked->name);
  if (!next) return errno = ENOSYS, -1;
  if (asked->name == ONSTACK_NEXT_FXSTATAT)
    return ((stat_of_version)next)(asked->version, asked->directory, asked->path, asked->there, asked->flags);
  return ((stat_at)next)(asked->directory, asked->path, asked->there, asked->flags);
}

static bool count_is_meant(const char *path) {
  static const char name[] = "self/task";
  size_t length = path ? strlen(path) : 0;
  while (length > 0 && path[length - 1] == '/') length--;
  return length >= sizeof(name) - 1 && memcmp(path + length - (sizeof(name) - 1), name, sizeof(name) - 1) == 0;
}

/* How many links there would be without threads of ours; fewer than can be, while one of them is being made. */
static int64_t count_of_host(nlink_t links) { return (int64_t)links - (int64_t)onstack_own_count_expected(); }

static int count_corrected(const count_question *asked) {
  const struct onstack_timespec pause = {0, COUNT_PAUSE_NS};
  uint32_t never = 0;
  int result = count_ask(asked);
  if (result != 0 || !S_ISDIR(asked->there->st_mode) || !count_is_meant(asked->path) || !onstack_keeper_is_here())
    return result;
  const uint64_t begun = onstack_monotonic_ns(), recently = begun > COUNT_WAIT_NS ? begun - COUNT_WAIT_NS : 0;
  while (count_of_host(asked->there->st_nlink) != COUNT_LINKS_ALONE && onstack_own_changed_since(recently) &&
         onstack_monotonic_ns() < begun + COUNT_WAIT_NS) {
    onstack_sys_futex_wait(&never, 0, &pause);
    if ((result = count_ask(asked)) != 0) return result;
  }
  const int64_t links = count_of_host(asked->there->st_nlink);
  asked->there->st_nlink = (nlink_t)(links > COUNT_LINKS_ALONE ? links : COUNT_LINKS_ALONE);
  return 0;
}

static int count_stat(onstack_next_name name, int version, int directory, const char *path, struct stat *there, int flags) {
  const count_question asked = {name, version, directory, path, there, flags};
  return count_corrected(&asked);
}

ONSTACK_PRELOAD_API int fstatat(int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FSTATAT, 0, directory, path, there, flags);
}

/* Other names of the same where both structures are 64 bits wide. Their C names are macros in some libcs. */
ONSTACK_PRELOAD_API int count_fstatat64(int directory, const char *path, struct stat *there, int flags) __asm__("fstatat64");
int count_fstatat64(int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FSTATAT, 0, directory, path, there, flags);
}

ONSTACK_PRELOAD_API int __fxstatat(int version, int directory, const char *path, struct stat *there, int flags);
int __fxstatat(int version, int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FXSTATAT, version, directory, path, there, flags);
}

ONSTACK_PRELOAD_API int count_fxstatat64(int version, int directory, const char *path, struct stat *there,
                                         int flags) __asm__("__fxstatat64");
int count_fxstatat64(int version, int directory, const char *path, struct stat *there, int flags) {
  return count_stat(ONSTACK_NEXT_FXSTATAT, version, directory, path, there, flags);
}
