/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/next.h"

#include "platform/atomics.h"

#include <dlfcn.h>

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
