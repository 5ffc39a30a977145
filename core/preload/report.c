/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/report.h"

#include "preload/guard.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <time.h>

static struct stat report_stderr; /* st_ino 0: there was none */

void onstack_report_begin(void) {
  if (fstat(STDERR_FILENO, &report_stderr) != 0) memset(&report_stderr, 0, sizeof(report_stderr));
}

static bool report_is_open(void) {
  struct stat now;
  return report_stderr.st_ino != 0 && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == report_stderr.st_dev &&
         now.st_ino == report_stderr.st_ino;
}

/* Takes the SIGPIPE that the write raised, if it did: one that was pending before belongs to the host. */
void onstack_report_write(const char *line, size_t length) {
  sigset_t pipe, old, pending;
  struct timespec none = {0, 0};
  if (!report_is_open()) return;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  if (write(STDERR_FILENO, line, length) < 0 && !sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void onstack_report(const char *format, ...) {
  char line[1024] = "onstack: ";
  size_t used = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used = used + (size_t)more < sizeof(line) - 2 ? used + (size_t)more : sizeof(line) - 2;
  line[used++] = '\n';
  if (!onstack_guard_says(line, used)) onstack_report_write(line, used);
}
