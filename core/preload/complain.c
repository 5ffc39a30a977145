/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/complain.h"

#include "preload/guard.h"
#include "preload/host_stderr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void onstack_complain(const char *format, ...) {
  char line[1024] = "onstack: ";
  size_t used = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used = used + (size_t)more < sizeof(line) - 2 ? used + (size_t)more : sizeof(line) - 2;
  line[used++] = '\n';
  if (!onstack_guard_says(line, used)) onstack_host_stderr_write(line, used);
}
