/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program from its first instruction to its last: the dynamic linker, constructors, lazy binding, main, exit. */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bool subject_whole = true;
const char subject_name[] = "startup";

static int constructed;

__attribute__((constructor)) static void construct(void) { constructed = atoi("41") + 1; }
__attribute__((destructor)) static void destruct(void) { constructed = 0; }
static void at_exit(void) { constructed--; }

int subject_run(void) {
  char text[100];
  if (atexit(at_exit) != 0) return 1;
  snprintf(text, sizeof(text), "%d %s", constructed, getenv("PATH"));
  return strncmp(text, "42 ", 3) == 0 ? 0 : 1;
}
