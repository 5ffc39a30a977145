/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/complain.h"

#include "preload/host_stderr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
