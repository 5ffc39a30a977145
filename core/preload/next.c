/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/next.h"

#include "platform/atomics.h"
#include "platform/defs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

static const char *const next_names[ONSTACK_NEXT_COUNT] = {
    [ONSTACK_NEXT_EXIT] = "_exit",
    [ONSTACK_NEXT_EXIT_CAPITAL] = "_Exit",
    [ONSTACK_NEXT_ABORT] = "abort",
    [ONSTACK_NEXT_FORK] = "fork",
    [ONSTACK_NEXT_FORKPTY] = "forkpty",
    [ONSTACK_NEXT_DAEMON] = "daemon",
    [ONSTACK_NEXT_EXECVE] = "execve",
    [ONSTACK_NEXT_EXECVPE] = "execvpe",
    [ONSTACK_NEXT_FEXECVE] = "fexecve",
    [ONSTACK_NEXT_SIGACTION] = "sigaction",
    [ONSTACK_NEXT_SIGNAL] = "signal",
    [ONSTACK_NEXT_SYSV_SIGNAL] = "sysv_signal",
    [ONSTACK_NEXT_SIGINTERRUPT] = "siginterrupt",
    [ONSTACK_NEXT_SIGSET] = "sigset",
    [ONSTACK_NEXT_SIGIGNORE] = "sigignore",
    [ONSTACK_NEXT_SIGWAIT] = "sigwait",
    [ONSTACK_NEXT_SIGWAITINFO] = "sigwaitinfo",
    [ONSTACK_NEXT_SIGTIMEDWAIT] = "sigtimedwait",
    [ONSTACK_NEXT_SIGNALFD] = "signalfd",
    [ONSTACK_NEXT_PTHREAD_CREATE] = "pthread_create",
    [ONSTACK_NEXT_FSTATAT] = "fstatat",
    [ONSTACK_NEXT_FXSTATAT] = "__fxstatat",
};

static void *next_found[ONSTACK_NEXT_COUNT];

static void *next_find(onstack_next_name name) {
  void *found = onstack_observe(&next_found[name]);
  if (found) return found;
  found = dlsym(RTLD_NEXT, next_names[name]);
  onstack_publish(&next_found[name], found);
  return found;
}

void onstack_next_find(void) {
  for (int name = 0; name < ONSTACK_NEXT_COUNT; name++) next_find((onstack_next_name)name);
}

/* Constructors of other libraries may come before ours and call one of them: then it is looked up here. */
void (*onstack_next(onstack_next_name name))(void) { return (void (*)(void))(uintptr_t)next_find(name); }

/*
 * A preload is for whatever program comes, and the children of a shell may be linked with another libc than this library
 * was. musl's loader takes a library of glibc's, and needs nothing but its names: of those that this library uses it lacks
 * the ones by which glibc's headers and its static part replace the standard's functions. So these stand here, and bind
 * inside. ci/check-exports.sh and ci/check-portability.sh look whether these are all.
 */

typedef void (*other_handler)(void);

extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __register_atfork(other_handler, other_handler, other_handler, void *) __attribute__((weak));
extern int __cxa_at_quick_exit(void (*)(void *), void *) __attribute__((weak));

static void *other_find(const char *name) { return dlsym(RTLD_NEXT, name); }

int pthread_atfork(other_handler prepare, other_handler parent, other_handler child) {
  if (__register_atfork) return __register_atfork(prepare, parent, child, &__dso_handle);
  int (*standard)(other_handler, other_handler, other_handler) =
      (int (*)(other_handler, other_handler, other_handler))(uintptr_t)other_find("pthread_atfork");
  return standard ? standard(prepare, parent, child) : ENOSYS;
}

int at_quick_exit(other_handler handler) {
  if (__cxa_at_quick_exit) return __cxa_at_quick_exit((void (*)(void *))(uintptr_t)handler, &__dso_handle);
  int (*standard)(other_handler) = (int (*)(other_handler))(uintptr_t)other_find("at_quick_exit");
  return standard ? standard(handler) : ENOSYS;
}

/* Headers of glibc 2.38 and later give these names to strtol and its like, which read binary numbers as C23 wants. */
extern long other_strtol(const char *text, char **end, int base) __asm__("strtol");
extern unsigned long long other_strtoull(const char *text, char **end, int base) __asm__("strtoull");
extern int other_vsscanf(const char *text, const char *format, va_list values) __asm__("__isoc99_vsscanf");
ONSTACK_INTERNAL long __isoc23_strtol(const char *text, char **end, int base);
ONSTACK_INTERNAL unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
ONSTACK_INTERNAL int __isoc23_sscanf(const char *text, const char *format, ...);

long __isoc23_strtol(const char *text, char **end, int base) { return other_strtol(text, end, base); }

unsigned long long __isoc23_strtoull(const char *text, char **end, int base) { return other_strtoull(text, end, base); }

int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int result = other_vsscanf(text, format, values);
  va_end(values);
  return result;
}
