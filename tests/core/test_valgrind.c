/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that are tested under valgrind stay clean when they are profiled. */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(valgrind, .init = t_setup);

#define NOT_THERE 127

Test(valgrind, a_profiled_program_is_not_reported) {
  char path[4096], text[4096];
  FILE *output = tmpfile();
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);
  cr_assert(output && length > 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "under_valgrind");
  fflush(NULL);
  const int child = fork();
  if (child == 0) {
    alarm(0);
    dup2(fileno(output), STDERR_FILENO);
    execlp("valgrind", "valgrind", "--quiet", "--error-exitcode=9", "--leak-check=no", path, (char *)NULL);
    _exit(NOT_THERE);
  }
  const int status = t_wait(child);
  if (status == NOT_THERE) cr_skip("valgrind is not here");
  rewind(output);
  text[fread(text, 1, sizeof(text) - 1, output)] = 0;
  cr_assert_eq(status, 0, "%d (9: valgrind reports an error): %s", status, text);
  cr_assert_eq(text[0], 0, "%s", text);
}
