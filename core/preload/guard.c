/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/guard.h"

#include "base/atomics.h"
#include "handler/unwind/memory.h"
#include "handler/tick/own_threads.h"
#include "preload/allocator.h"
#include "preload/host_stderr.h"
#include "preload/detached_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUARD_STACK_BYTES ((size_t)64 << 10)
#define GUARD_TRIES 20u

/* linux/close_range.h, since 5.9; the number is the same on every architecture. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define GUARD_CLOSE_RANGE_UNSHARE 2u

/* Since 5.3 and 5.6; the same everywhere, too. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

typedef enum guard_request { GUARD_SAY, GUARD_END, GUARD_EXIT } guard_request;

/* But for `made` written by the keeper before it raises `requests`, read by the guard behind it. */
static struct {
  int32_t keeper;    /* the thread with a table of its own; 0: nobody has one */
  bool refused;      /* the kernel has given it none */
  int copy;          /* the host's stderr in the table of its own, plus 1; 0: none */
  uint32_t made;     /* the guard: by the keeper, or by the host's first thread */
  uint32_t known;    /* futex; 1 once the guard is known as one of ours */
  uint32_t requests; /* futex */
  uint32_t finished; /* futex; how many of them */
  guard_request request;
  onstack_kernel_sigset mask;
  size_t length;
  bool written; /* all of the line */
  char line[ONSTACK_GUARD_LINE];
} guard;

/* Until the word is another one than `old`; each has one writer, which raises it by one. */
static void guard_await_change(uint32_t *word, uint32_t old) {
  while (onstack_observe(word) == old) onstack_sys_futex_wait(word, old, NULL);
}

static void guard_raise(uint32_t *word) {
  onstack_publish(word, onstack_load_relaxed(word) + 1);
  onstack_sys_futex_wake(word);
}

/* Whichever thread libc sees end last calls exit(), which is to find the host's descriptors. */
static void guard_outlive_keeper(void) {
  const struct onstack_timespec pause = {0, 1000000};
  uint32_t never = 0;
  while (guard.keeper != 0 && onstack_sys_call3(SYS_tgkill, onstack_sys_getpid(), guard.keeper, 0) == 0)
    onstack_sys_futex_wait(&never, 0, &pause);
}

static void *guard_main(void *argument) {
  (void)argument;
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)"onstack-guard");
  onstack_own_enter();
  guard_raise(&guard.known);
  for (;;) {
    guard_await_change(&guard.requests, guard.finished);
    if (guard.request != GUARD_SAY) break;
    guard.written = onstack_host_stderr_write(STDERR_FILENO, guard.line, guard.length);
    guard_raise(&guard.finished);
  }
  if (guard.request == GUARD_END) guard_outlive_keeper();
  onstack_own_leave();
  if (guard.request == GUARD_END) return NULL;
  onstack_sys_sigprocmask(SIG_SETMASK, &guard.mask, NULL);
  exit(0);
}

static bool guard_copy_works(void) {
  uint64_t words[2] = {1, 2}, copy[2];
  return onstack_memory_copy_pair((uint64_t)(uintptr_t)words, copy);
}

/* The caller has made it. False: nobody can, or the other one who may make it does. */
static bool guard_make(uint32_t tries) {
  uint32_t none = 0;
  if (!onstack_cas(&guard.made, &none, 1u)) return false;
  while (onstack_preload_thread(GUARD_STACK_BYTES, guard_main, NULL) != 0) {
    if (tries-- == 0) {
      onstack_publish(&guard.made, 0u);
      return false;
    }
    onstack_sys_sleep(1000000); /* another thread may be in exec, where the kernel makes none */
  }
  return true;
}

/* pidfd_getfd is in no list of what a service may call (systemd's @system-service, Docker's), and a filter may kill. What is
   asked for this way needs no descriptor. */
static bool guard_is_filtered(void) { return onstack_sys_call1(SYS_prctl, PR_GET_SECCOMP) != 0; }

static bool guard_may_open_anew(void) {
  struct stat file;
  if (stat("/proc/self/fd/2", &file) != 0) return false;
  /* A regular file would have a second position, and lines of ours be overwritten; a socket cannot be opened. */
  return (S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode)) && access("/proc/self/fd/2", W_OK) == 0;
}

/* The host's stderr in the caller's table: of the process's first thread, its very file where that can be had, else the file
   anew. -errno; -EBADF: it is closed. */
static int guard_fetch_stderr(void) {
  if (guard_is_filtered()) {
    if (!guard_may_open_anew()) return -ENXIO;
    return (int)onstack_sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/fd/2",
                                  O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  }
  const long process = onstack_sys_call2(SYS_pidfd_open, onstack_sys_getpid(), 0);
  if (process < 0) return (int)process;
  const long file = onstack_sys_call3(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
  onstack_sys_call1(SYS_close, process);
  return (int)file;
}

/* Opens nothing: the caller shares the host's table yet. Threads of one process may always have each other's files
   (kernel/ptrace.c, __ptrace_may_access). */
static bool guard_reaches_stderr(void) {
  return guard_is_filtered() ? guard_may_open_anew() : onstack_sys_call3(SYS_pidfd_getfd, -1, 0, 0) == -EBADF;
}

void onstack_guard_take_own_table(void) {
  if (guard.keeper != 0 || guard.refused || !guard_copy_works() || !onstack_allocator_is_libcs()) return;
  if (!guard_reaches_stderr()) {
    if (!guard_make(0)) return;
    guard_await_change(&guard.known, 0);
  }
  /* Not unshare(): the copy leaves out what is to be closed, so none of the host's files stays open because of us. (Before
     Linux 6.12 the first 64 are copied and closed at once.) The host's first thread has the old one. */
  if (onstack_sys_call3(SYS_close_range, 0, (long)~0u, GUARD_CLOSE_RANGE_UNSHARE) != 0) {
    guard.refused = true; /* a guard stays until the keeper's end */
    return;
  }
  guard.keeper = onstack_sys_gettid();
  if (onstack_observe(&guard.known)) return;
  const int copy = guard_fetch_stderr();
  if (copy >= 0) guard.copy = copy + 1;
}

void onstack_guard_copy_stderr(void) {
  if (guard_reaches_stderr()) onstack_guard_take_own_table();
}

void onstack_guard_follow_stderr(void) {
  if (guard.copy == 0) return;
  const int now = guard_fetch_stderr();
  if (now < 0 || !onstack_host_stderr_is(now)) {
    onstack_sys_call1(SYS_close, guard.copy - 1);
    guard.copy = 0;
  }
  if (now >= 0) onstack_sys_call1(SYS_close, now);
}

void onstack_guard_hold_table(void) { guard_make(GUARD_TRIES); }

static bool guard_fetches_and_says(const char *line, size_t length) {
  const int file = guard_fetch_stderr();
  const bool is_open = file >= 0 && onstack_host_stderr_is(file), has_copy = !is_open && guard.copy > 0;
  const bool written = (is_open || has_copy) && onstack_host_stderr_write(has_copy ? guard.copy - 1 : file, line, length);
  if (file >= 0) onstack_sys_call1(SYS_close, file);
  return written;
}

bool onstack_guard_says(const char *line, size_t length, bool *written) {
  if (guard.keeper == 0 || guard.keeper != onstack_sys_gettid()) return false;
  if (onstack_observe(&guard.known) == 0) {
    *written = guard_fetches_and_says(line, length);
    return true;
  }
  guard.length = length < ONSTACK_GUARD_LINE ? length : ONSTACK_GUARD_LINE;
  memcpy(guard.line, line, guard.length);
  guard.request = GUARD_SAY;
  guard_raise(&guard.requests);
  guard_await_change(&guard.finished, guard.requests - 1);
  *written = guard.written;
  return true;
}

void onstack_guard_exit(onstack_kernel_sigset mask) {
  if (guard.keeper == 0 || onstack_observe(&guard.made) == 0) {
    onstack_sys_sigprocmask(SIG_SETMASK, &mask, NULL);
    exit(0);
  }
  guard.mask = mask;
  guard.request = GUARD_EXIT;
  guard_raise(&guard.requests);
}

void onstack_guard_end(void) {
  guard.request = GUARD_END;
  guard_raise(&guard.requests);
}

void onstack_guard_forget(void) { memset(&guard, 0, sizeof(guard)); }
