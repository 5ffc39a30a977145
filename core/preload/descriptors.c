/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/descriptors.h"

#include "platform/atomics.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"
#include "sampler/threads/task.h"
#include "sampler/unwind/memory.h"
#include "preload/allocator.h"
#include "preload/interpose_thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STDERR_WAIT_MS 1000

static struct stat stderr_file; /* st_ino 0: there was none */
static bool stderr_owned;       /* the keeper's table has a copy of it */

void onstack_host_stderr_remember(void) {
  if (fstat(STDERR_FILENO, &stderr_file) != 0) memset(&stderr_file, 0, sizeof(stderr_file));
}

static bool stderr_is(const struct stat *now) {
  return stderr_file.st_ino != 0 && now->st_dev == stderr_file.st_dev && now->st_ino == stderr_file.st_ino;
}

static bool stderr_is_here(void) {
  struct stat now;
  return fstat(STDERR_FILENO, &now) == 0 && stderr_is(&now);
}

/* The first thread's descriptors: /proc/self is the process, not the calling thread. */
static bool stderr_is_the_hosts(void) {
  struct stat now;
  if (stat("/proc/self/fd/2", &now) == 0) return stderr_is(&now);
  return errno != ENOENT || access("/proc/self/fd", F_OK) != 0 || onstack_task_is_gone((uint32_t)onstack_sys_getpid());
}

static void stderr_disown(void) {
  close(STDERR_FILENO);
  stderr_owned = false;
}

void onstack_host_stderr_own(void) {
  stderr_owned = true;
  if (!stderr_is_here()) stderr_disown();
}

void onstack_host_stderr_follow(void) {
  if (stderr_owned && !stderr_is_the_hosts()) stderr_disown();
}

/* Waits for a reader for STDERR_WAIT_MS at most. */
static bool stderr_write_all(const char *line, size_t length) {
  struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
  while (length > 0) {
    if (poll(&ready, 1, STDERR_WAIT_MS) <= 0) return false;
    const ssize_t done = write(STDERR_FILENO, line, length);
    if (done < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (done > 0) {
      line += done;
      length -= (size_t)done;
    }
  }
  return true;
}

/* Takes the SIGPIPE that the write raised, if it did: one that was pending before belongs to the host. */
bool onstack_host_stderr_write(const char *line, size_t length) {
  sigset_t pipe, old, pending;
  struct timespec none = {0, 0};
  if (!stderr_is_here()) return false;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  const bool written = stderr_write_all(line, length);
  if (!written && !sigismember(&pending, SIGPIPE))
    onstack_sys_call4(SYS_rt_sigtimedwait, (long)&pipe, 0, (long)&none, sizeof(onstack_kernel_sigset));
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return written;
}

#define COMPLAIN_LINE 1024u /* bytes that a pipe takes whole, or not at all (PIPE_BUF in POSIX) */

bool onstack_say(const char *text, size_t length) {
  bool written = true;
  while (written && length > 0) {
    const size_t part = length < COMPLAIN_LINE ? length : COMPLAIN_LINE;
    written = onstack_host_stderr_write(text, part);
    text += part;
    length -= part;
  }
  return written;
}

void onstack_complain(const char *format, ...) {
  char line[COMPLAIN_LINE] = "onstack: ";
  size_t used = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used = used + (size_t)more < sizeof(line) - 2 ? used + (size_t)more : sizeof(line) - 2;
  line[used++] = '\n';
  onstack_say(line, used);
}

/* ---- a table of our own, and the guard ---- */

#define GUARD_TRIES 20u
#define GUARD_POLL_NS 1000000 /* while the keeper ends, */
#define GUARD_REST_SECONDS 1  /* and before: a filter may have ended it without a word */
#define GUARD_ENDS 1u
#define GUARD_ENDS_ALONE 2u

/* linux/close_range.h, since 5.9; the number is the same on every architecture. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define GUARD_CLOSE_RANGE_UNSHARE 2u

static struct {
  bool asked;            /* the kernel, for a table. The keeper only */
  const int32_t *keeper; /* `keeper` and `mask`: written before the guard is made */
  onstack_kernel_sigset mask;
  uint32_t ends; /* futex; GUARD_ENDS and so on: written by the keeper, read by the guard */
} guard;

void onstack_guard_take_own_table(void) {
  if (guard.asked || !onstack_allocator_is_libcs()) return;
  guard.asked = true;
  /* Not unshare(): the copy leaves out what is to be closed, so no file of the host stays open because of us. (Before Linux
     6.12 the first 64 are copied and closed at once.) */
  if (onstack_sys_call3(SYS_close_range, STDERR_FILENO + 1, (long)UINT32_MAX, GUARD_CLOSE_RANGE_UNSHARE) != 0) return;
  onstack_sys_call3(SYS_close_range, 0, STDERR_FILENO - 1, 0);
  onstack_host_stderr_own();
}

/* `polls`: how often it has looked since the keeper said that it ends. Where the system does not say whether a thread is there
   (a filter refuses tgkill), the keeper has ended by then. */
static bool guard_is_last(uint32_t polls) {
  const int32_t keeper = onstack_load_relaxed(guard.keeper);
  if (keeper == 0) return false;
  const long answer = onstack_sys_call3(SYS_tgkill, onstack_sys_getpid(), keeper, 0);
  return answer == -ESRCH || (answer != 0 && polls >= GUARD_TRIES);
}

/* Few system calls: it has the filters of the first thread. */
static void *guard_main(void *argument) {
  (void)argument;
  onstack_own_enter();
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)"onstack-guard");
  for (uint32_t polls = 0; !guard_is_last(polls);) {
    const uint32_t ends = onstack_observe(&guard.ends);
    if (ends) polls++;
    const struct onstack_timespec poll = {0, GUARD_POLL_NS}, rest = {GUARD_REST_SECONDS, 0};
    onstack_sys_futex_wait(&guard.ends, ends, ends ? &poll : &rest);
  }
  onstack_own_leave();
  if (onstack_observe(&guard.ends) == GUARD_ENDS_ALONE) onstack_sys_sigprocmask(SIG_SETMASK, &guard.mask, NULL);
  return NULL;
}

void onstack_guard_make(const int32_t *keeper) {
  guard.keeper = keeper;
  /* The system's stack size. While another thread is in exec the kernel makes no thread. */
  for (uint32_t i = 0; onstack_preload_thread(0, guard_main, &guard.mask) != 0 && i < GUARD_TRIES; i++)
    onstack_sys_sleep(GUARD_POLL_NS);
}

void onstack_guard_end(bool alone) {
  onstack_publish(&guard.ends, alone ? GUARD_ENDS_ALONE : GUARD_ENDS);
  onstack_sys_futex_wake(&guard.ends);
}

void onstack_guard_forget(void) { memset(&guard, 0, sizeof(guard)); }
