/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_stderr.h"

#include "platform/sys.h"
#include "sampler/threads/task.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <stdarg.h>
#include <stdio.h>

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
