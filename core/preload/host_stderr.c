/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_stderr.h"

#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STDERR_WAIT_MS 1000

static struct stat stderr_file; /* st_ino 0: there was none */

void onstack_host_stderr_remember(void) {
  if (fstat(STDERR_FILENO, &stderr_file) != 0) memset(&stderr_file, 0, sizeof(stderr_file));
}

bool onstack_host_stderr_is(int file) {
  struct stat now;
  return stderr_file.st_ino != 0 && fstat(file, &now) == 0 && now.st_dev == stderr_file.st_dev &&
         now.st_ino == stderr_file.st_ino;
}

/* All of it, to somebody who reads: nobody waits for a pipe that is full for longer than STDERR_WAIT_MS. */
static bool stderr_write_all(int file, const char *line, size_t length) {
  struct pollfd ready = {.fd = file, .events = POLLOUT};
  while (length > 0) {
    if (poll(&ready, 1, STDERR_WAIT_MS) <= 0) return false;
    const ssize_t done = write(file, line, length);
    if (done < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (done > 0) {
      line += done;
      length -= (size_t)done;
    }
  }
  return true;
}

/* Takes the SIGPIPE that the write raised, if it did: one that was pending before belongs to the host. */
bool onstack_host_stderr_write(int file, const char *line, size_t length) {
  sigset_t pipe, old, pending;
  struct timespec none = {0, 0};
  if (!onstack_host_stderr_is(file)) return false;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  const bool written = stderr_write_all(file, line, length);
  if (!written && !sigismember(&pending, SIGPIPE))
    onstack_sys_call4(SYS_rt_sigtimedwait, (long)&pipe, 0, (long)&none, sizeof(onstack_kernel_sigset));
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return written;
}
