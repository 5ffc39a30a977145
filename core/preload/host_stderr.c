/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/host_stderr.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct stat stderr_file; /* st_ino 0: there was none */

void onstack_host_stderr_remember(void) {
  if (fstat(STDERR_FILENO, &stderr_file) != 0) memset(&stderr_file, 0, sizeof(stderr_file));
}

static bool stderr_is_open(void) {
  struct stat now;
  return stderr_file.st_ino != 0 && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == stderr_file.st_dev &&
         now.st_ino == stderr_file.st_ino;
}

/* Takes the SIGPIPE that the write raised, if it did: one that was pending before belongs to the host. */
void onstack_host_stderr_write(const char *line, size_t length) {
  sigset_t pipe, old, pending;
  struct timespec none = {0, 0};
  if (!stderr_is_open()) return;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  if (write(STDERR_FILENO, line, length) < 0 && !sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}
