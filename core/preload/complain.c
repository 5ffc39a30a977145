/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/complain.h"

#include "preload/guard.h"
#include "preload/host_stderr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool onstack_say(const char *text, size_t length) {
  bool written = true;
  while (written && length > 0) {
    const size_t part = length < ONSTACK_GUARD_LINE ? length : ONSTACK_GUARD_LINE;
    if (!onstack_guard_says(text, part, &written)) written = onstack_host_stderr_write(STDERR_FILENO, text, part);
    text += part;
    length -= part;
  }
  return written;
}

void onstack_complain(const char *format, ...) {
  char line[ONSTACK_GUARD_LINE] = "onstack: ";
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
