/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children that are to be profiled need a keeper, made when every handler of fork has run: so behind fork and behind the
 * functions of libc that fork inside. vfork is left alone (it returns twice); its children exec or end at once.
 */
#include "preload/first_ticks.h"
#include "preload/first_ticks_store.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

#include <errno.h>
#include <pty.h>
#include <unistd.h>

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
